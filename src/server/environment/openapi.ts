/** The description of the server's API, from the schemas that its requests are checked against. */
import * as answers from '../../schemas/environment-server/answers.ts';
import { DescribedStepRequestSchema, EpisodesRequestSchema } from '../../schemas/environment-server/episode-requests.ts';
import { RolloutsRequestSchema } from '../../schemas/environment-server/rollouts-request.ts';
import { openEnvDescription } from './openenv/open-env-description.ts';

export interface ApiOptions {
  readonly version: string;
  readonly needsKey: boolean;
}

export interface DescribedRoute {
  readonly summary: string;
  readonly body?: object;
  readonly parameters?: readonly object[];
  readonly answer: object;
  readonly type?: string;
  /** Statuses of refusals that not every route has. */
  readonly refusals?: readonly number[];
  readonly isOpen?: boolean;
}

const REFUSALS: Readonly<Record<number, string>> = {
  400: 'The body ended early, or no row has this place.',
  401: 'The API key is missing or wrong.',
  403: 'The host header names another server.',
  404: 'The path, the episode or the environment does not exist.',
  405: 'The path takes another method.',
  408: 'The body did not arrive in time.',
  409: 'The request_id was used for another request, or the episode is being played.',
  413: 'The body is too large.',
  415: 'The body is not JSON.',
  422: 'The request has a wrong value. The message says what was expected, what came, and what to do.',
  424: 'The episode failed, or its environment did not answer in time. The message says why.',
  502: 'The policy server failed.',
  503: 'The server is full. Try again after the seconds of Retry-After.',
};
const BODY = [400, 408, 413, 415, 422, 503];

const page = (name: string, about: string, schema: object) => ({ name, in: 'query', required: false, description: about, schema });

const ROUTES: Readonly<Record<string, Readonly<Record<string, DescribedRoute>>>> = {
  '/health': { get: { summary: 'Whether the server is up', answer: answers.HealthSchema, isOpen: true } },
  '/v1/tasks': {
    get: {
      summary: 'The rows of the served split, in order',
      parameters: [
        page('offset', 'First row', { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, default: 0 }),
        page('limit', 'Most rows', { type: 'integer', minimum: 0, maximum: 10_000, default: 1000 }),
      ],
      answer: answers.TasksSchema,
      refusals: [422],
    },
  },
  '/v1/episodes': {
    post: {
      summary: 'Begins episodes for a caller that owns the policy; answers the first turn of each',
      body: EpisodesRequestSchema,
      answer: answers.EpisodesAnswerSchema,
      refusals: BODY,
    },
  },
  '/v1/episodes/step': {
    post: {
      summary:
        'Takes a sample for a turn of each episode; answers the next turn or the rollout of each, in order. The same step again gets the same answer',
      body: DescribedStepRequestSchema,
      answer: answers.EpisodesAnswerSchema,
      refusals: BODY,
    },
  },
  '/v1/episodes/{episode_id}': {
    delete: {
      summary: 'Ends an episode without a rollout',
      parameters: [{ name: 'episode_id', in: 'path', required: true, schema: { type: 'string', minLength: 1 } }],
      answer: answers.DeletedSchema,
      refusals: [404],
    },
  },
  '/v1/rollouts': {
    post: {
      summary: 'Plays rollouts against a policy server; answers a line of JSON for each as it ends, and a last one with the counts',
      body: RolloutsRequestSchema,
      answer: answers.RolloutLineSchema,
      type: 'application/x-ndjson',
      refusals: [...BODY, 409],
    },
  },
  ...openEnvDescription(BODY),
  '/openapi.json': { get: { summary: 'This description', answer: { type: 'object' } } },
};

export function openApi({ version, needsKey }: ApiOptions): object {
  return {
    openapi: '3.1.0',
    info: { title: 'vf-serve environment', version, description: 'Environments for trainers and harnesses: docs/interop.md' },
    ...(needsKey ? { components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } }, security: [{ key: [] }] } : {}),
    paths: Object.fromEntries(
      Object.entries(ROUTES).map(([path, methods]) => [
        path,
        Object.fromEntries(Object.entries(methods).map(([method, route]) => [method, operation(route, needsKey)])),
      ]),
    ),
  };
}

function operation(
  { summary, body, parameters, answer, type = 'application/json', refusals = [], isOpen = false }: DescribedRoute,
  needsKey: boolean,
): object {
  const statuses = [...new Set([403, ...(needsKey && !isOpen ? [401] : []), ...refusals])].toSorted((a, b) => a - b);
  const refused = statuses.map((status) => [
    String(status),
    { description: REFUSALS[status], content: { 'application/json': { schema: answers.RefusalSchema } } },
  ]);
  return {
    summary,
    ...(isOpen ? { security: [] } : {}),
    ...(parameters === undefined ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: { 'application/json': { schema: body } } } }),
    responses: { '200': { description: 'Done', content: { [type]: { schema: answer } } }, ...Object.fromEntries(refused) },
  };
}
