/** OpenEnv's HTTP routes, for the description of the server's API. */
import * as wire from '../../../schemas/environment-server/openenv.ts';
import type { DescribedRoute } from '../openapi.ts';

const name = {
  name: 'env_name',
  in: 'path',
  required: true,
  description: 'As GET /list_environments answers',
  schema: { type: 'string', minLength: 1 },
};
const parameters = [name];

/** `refusals`: the statuses that any body may be refused with. */
export function openEnvDescription(refusals: readonly number[]): Readonly<Record<string, Readonly<Record<string, DescribedRoute>>>> {
  const tasks = (summary: string, body: object, answer: object) => ({
    post: { summary, body, answer, parameters, refusals: [...refusals, 404] },
  });
  return {
    '/reset': {
      post: {
        summary: 'OpenEnv: begins an episode; metadata.episode_id of the answer names it in later requests',
        body: wire.ResetDataSchema,
        answer: wire.ResetAnswerSchema,
        refusals: [...refusals, 409, 424],
      },
    },
    '/step': {
      post: {
        summary: 'OpenEnv: takes an action in an episode. The WebSocket /ws plays the same by the frames reset, step, state and close',
        body: wire.StepBodySchema,
        answer: wire.StepAnswerSchema,
        refusals: [...refusals, 404, 409, 424],
      },
    },
    '/state': {
      get: {
        summary: 'OpenEnv: where an episode stands',
        parameters: [
          { name: 'episode_id', in: 'query', required: false, description: 'Left out: no episode', schema: { type: 'string', minLength: 1 } },
        ],
        answer: wire.StateSchema,
        refusals: [404],
      },
    },
    '/schema': { get: { summary: 'OpenEnv: JSON Schemas of actions, observations and states', answer: wire.SchemasAnswerSchema } },
    '/metadata': { get: { summary: 'OpenEnv: what this server serves', answer: wire.MetadataSchema } },
    '/list_environments': { get: { summary: 'OpenEnv: the name of the environment', answer: wire.EnvironmentsSchema } },
    '/{env_name}/splits': { get: { summary: 'OpenEnv: the served split', answer: wire.SplitsSchema, parameters, refusals: [404] } },
    '/{env_name}/tasks': tasks('OpenEnv: the rows of the split, at most 10,000', wire.SplitBodySchema, wire.TaskListSchema),
    '/{env_name}/num_tasks': tasks('OpenEnv: how many rows the split has', wire.SplitBodySchema, wire.TaskCountSchema),
    '/{env_name}/task': tasks('OpenEnv: the row at a place', wire.TaskBodySchema, wire.OneTaskSchema),
    '/{env_name}/task_range': tasks('OpenEnv: the rows from start to before stop', wire.TaskRangeBodySchema, wire.TaskRangeSchema),
  };
}
