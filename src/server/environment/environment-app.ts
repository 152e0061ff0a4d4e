/**
 * The routes of `vf-serve environment`. A rollout is the same record in both cases: under /v1/episodes the caller owns the policy and brings every sample, under
 * /v1/rollouts the server calls the caller's policy server.
 */
import { type Context, Hono } from 'hono';
import { CancelledError } from '../../core/errors.ts';
import { EpisodesRequestSchema, StepRequestSchema } from '../../schemas/environment-server/episode-requests.ts';
import { keyCheck } from '../access.ts';
import { hostCheck, WRONG_HOST } from '../door.ts';
import { ResetDataSchema } from '../../schemas/environment-server/openenv.ts';
import { RolloutsRequestSchema } from '../../schemas/environment-server/rollouts-request.ts';
import { schemaCheck } from '../../schemas/schema-check.ts';
import type { CallerEpisodes } from './caller-episodes.ts';
import type { HeldBytes } from '../held-bytes.ts';
import { EnvironmentRefusal, refusalOf } from './environment-refusal.ts';
import { JsonRequests } from './json-requests.ts';
import { ndjson } from './ndjson.ts';
import { openApi } from './openapi.ts';
import type { HttpSessions } from './openenv/http-sessions.ts';
import { openEnvRoutes } from './openenv/open-env-routes.ts';
import type { RolloutJobs } from './rollout-jobs.ts';
import type { ServedEnvironment } from './served-environment.ts';
import { taskPage } from './task-page.ts';

export interface EnvironmentAppOptions {
  readonly served: ServedEnvironment;
  readonly episodes: CallerEpisodes;
  readonly jobs: RolloutJobs;
  readonly sessions: HttpSessions;
  /** Null allows everyone. */
  readonly apiKey: string | null;
  /** The address that the app listens on. A loopback server answers only requests for a name of this machine. */
  readonly host: string;
  readonly version: string;
  /** The account of everything that the server holds for its callers. */
  readonly held: HeldBytes;
  /** @default 64 MiB, a batch of 1,024 samples of 2,000 tokens */
  readonly maxBodyBytes?: number;
  /** Called for every failure of the server itself. */
  readonly onFailure: (error: unknown) => void;
}

const OPEN_PATHS: ReadonlySet<string> = new Set(['/health']);
const JSON_TYPE = { 'content-type': 'application/json' };
const BODIES_HELD = 4;

export function environmentApp(options: EnvironmentAppOptions): Hono {
  const { served, episodes, jobs, sessions, apiKey, host, version, held, maxBodyBytes = 64 * 2 ** 20, onFailure } = options;
  const requests = new JsonRequests({ maxBodyBytes, bodiesHeld: BODIES_HELD, held });
  // Compiled before the first requests, which would wait up to 50 ms for it, and all others with them.
  for (const schema of [EpisodesRequestSchema, StepRequestSchema, RolloutsRequestSchema, ResetDataSchema]) schemaCheck(schema);
  const app = new Hono();
  const namesThisServer = hostCheck(host);
  const hasKey = keyCheck(apiKey, OPEN_PATHS);
  app.use(async (c, next) => {
    if (!namesThisServer(c.req.raw)) throw new EnvironmentRefusal(403, WRONG_HOST);
    if (!hasKey(c.req.path, c.req.header('authorization'))) {
      throw new EnvironmentRefusal(401, 'The API key is missing or wrong. Send the header authorization: Bearer KEY.');
    }
    return next();
  });
  app.get('/health', (c) => c.json({ status: 'healthy', env_id: served.environment.id, version, episodes: episodes.live, rollouts: jobs.active }));
  app.get('/openapi.json', (c) => c.json(openApi({ version, needsKey: apiKey !== null })));
  app.get('/v1/tasks', (c) => c.json(taskPage(served, c.req.query())));
  app.post('/v1/episodes', (c) =>
    requests.read(c, { schema: EpisodesRequestSchema, use: async (request) => lines(c, await episodes.begin(request)) }),
  );
  app.post('/v1/episodes/step', (c) =>
    requests.read(c, { schema: StepRequestSchema, use: async ({ episodes: entries }) => lines(c, await episodes.step(entries)) }),
  );
  app.delete('/v1/episodes/:id', (c) => {
    const id = c.req.param('id');
    if (!episodes.delete(id))
      throw new EnvironmentRefusal(404, 'The server does not know this episode. It was deleted or timed out (--idle-timeout).');
    return c.json({ episode_id: id, deleted: true });
  });
  app.post('/v1/rollouts', (c) =>
    requests.read(c, {
      schema: RolloutsRequestSchema,
      use: async (request) => {
        const left = new AbortController();
        const leave = () => left.abort(new CancelledError('The client disconnected'));
        return ndjson(await jobs.answer(request, left.signal), leave);
      },
    }),
  );
  // Before the routes that begin with the environment's name, which could be that of another path.
  refuseOtherMethods(app);
  openEnvRoutes(app, { served, sessions, version, held });
  refuseOtherMethods(app);
  refuseTheRest(app, onFailure);
  return app;
}

/** The lines are JSON already. */
function lines(c: Context, episodes: readonly string[]): Response {
  return c.body(`{"episodes":[${episodes.join(',')}]}`, 200, JSON_TYPE);
}

function refuseOtherMethods(app: Hono): void {
  const methods = new Map<string, Set<string>>();
  for (const { path, method } of app.routes) {
    if (method !== 'ALL') methods.set(path, (methods.get(path) ?? new Set()).add(method));
  }
  for (const [path, allowed] of methods) {
    const allow = [...allowed].join(', ');
    app.all(path, (c) => c.json(new EnvironmentRefusal(405, `The path takes ${allow}.`).body, 405, { allow }));
  }
}

/** Answers for wrong paths and errors. */
function refuseTheRest(app: Hono, onFailure: (error: unknown) => void): void {
  app.notFound((c) => c.json(new EnvironmentRefusal(404, 'This path does not exist. GET /openapi.json lists the paths.').body, 404));
  app.onError((error, c) => {
    const refusal = refusalOf(error);
    if (refusal.status === 500) onFailure(refusal.cause ?? refusal);
    if (refusal.status === 503) c.header('retry-after', '1');
    if (refusal.status === 401) c.header('www-authenticate', 'Bearer');
    // The rest of an unread body would be parsed as the next request.
    if (refusal.status === 408 || refusal.status === 413) c.header('connection', 'close');
    return c.json(refusal.body, refusal.status);
  });
}
