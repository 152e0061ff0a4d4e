/** OpenEnv's HTTP routes: an environment's control, its description and its tasks. Source: `HTTPEnvServer.register_routes` of openenv 0.10.0. */
import type { Context, Hono } from 'hono';
import type { XStatic } from 'typebox/schema';
import * as wire from '../../../schemas/environment-server/openenv.ts';
import type { HeldBytes } from '../../held-bytes.ts';
import { EnvironmentRefusal } from '../environment-refusal.ts';
import { JsonRequests } from '../json-requests.ts';
import type { ServedEnvironment } from '../served-environment.ts';
import { taskOf } from '../task-page.ts';
import type { HttpSessions } from './http-sessions.ts';
import { isWord } from './text-action.ts';
import { countText } from '../../../core/count-text.ts';

export interface OpenEnvRoutesOptions {
  readonly served: ServedEnvironment;
  readonly sessions: HttpSessions;
  readonly version: string;
  /** The account of everything that the server holds. */
  readonly held: HeldBytes;
}

type Rows = ServedEnvironment['rows'];

/** The limit of a WebSocket frame. */
const MOST_BODY_BYTES = 2 ** 20;
const BODIES_HELD = 64;
/** The largest number of tasks in one answer. */
const MOST_TASKS = 10_000;
const JSON_TYPE = { 'content-type': 'application/json' };

export function openEnvRoutes(app: Hono, { served, sessions, version, held }: OpenEnvRoutesOptions): void {
  const requests = new JsonRequests({ maxBodyBytes: MOST_BODY_BYTES, bodiesHeld: BODIES_HELD, held, isWord });
  app.post('/reset', (c) =>
    requests.read(c, { schema: wire.ResetDataSchema, use: async (data) => line(c, wire.resetAnswerLine(await sessions.reset(data))) }),
  );
  app.post('/step', (c) =>
    requests.read(c, {
      schema: wire.StepBodySchema,
      use: async ({ action, episode_id: id }) => line(c, wire.stepAnswerLine(await sessions.step(id, action))),
    }),
  );
  app.get('/state', (c) => c.json(sessions.state(c.req.query('episode_id'))));
  app.get('/schema', (c) =>
    c.json({
      action: wire.ActionSchema,
      observation: wire.ObservationSchema,
      reset_observation: wire.ResetObservationSchema,
      state: wire.StateSchema,
    }),
  );
  app.get('/metadata', (c) => {
    const { environment, rows, split } = served;
    return c.json({ name: environment.id, description: `${rows.length} rows of ${rows.name} (split ${split}).`, version });
  });
  taskRoutes(app, requests, served);
}

function taskRoutes(app: Hono, requests: JsonRequests, served: ServedEnvironment): void {
  app.get('/list_environments', (c) => c.json([served.environment.id]));
  app.get('/:env_name/splits', (c) => {
    checkName(c, served);
    return c.json([{ name: served.split, type: served.split === 'train' ? 'train' : 'validation' }]);
  });
  const post = <const S extends object>(path: string, schema: S, answer: (body: XStatic<S>) => object) =>
    app.post(`/:env_name/${path}`, (c) => {
      checkName(c, served);
      return requests.read(c, { schema, use: async (body) => c.json(answer(body)) });
    });
  post('tasks', wire.SplitBodySchema, ({ split }) => {
    const rows = rowsOf(served, split);
    return { tasks: tasksOf(rows, 0, rows.length), env_name: served.environment.id };
  });
  post('num_tasks', wire.SplitBodySchema, ({ split }) => ({ num_tasks: rowsOf(served, split).length }));
  post('task', wire.TaskBodySchema, ({ split, index }) => ({ task: taskAt(rowsOf(served, split), index) }));
  post('task_range', wire.TaskRangeBodySchema, ({ split, start = null, stop = null }) => {
    const rows = rowsOf(served, split);
    return { tasks: tasksOf(rows, placeOf(start, 0, rows.length), placeOf(stop, rows.length, rows.length)) };
  });
}

/** The line is JSON already. */
function line(c: Context, json: string): Response {
  return c.body(json, 200, JSON_TYPE);
}

function checkName(c: Context, { environment: { id } }: ServedEnvironment): void {
  if (c.req.param('env_name')?.toLowerCase() === id.toLowerCase()) return;
  throw new EnvironmentRefusal(404, `This server has no such environment. It serves ${JSON.stringify(id)}.`);
}

function rowsOf({ split, rows }: ServedEnvironment, name: string): Rows {
  if (name === split) return rows;
  throw new EnvironmentRefusal(
    422,
    `split is ${JSON.stringify(name.slice(0, 64))}. This server serves the split ${JSON.stringify(split)} (--split).`,
  );
}

function taskAt(rows: Rows, index: number) {
  if (index >= 0 && index < rows.length) return taskOf(rows.at(index));
  throw new EnvironmentRefusal(400, `index is ${index}. Send a whole number from 0 to ${rows.length - 1}.`);
}

function tasksOf(rows: Rows, from: number, to: number) {
  const length = Math.max(0, to - from);
  if (length > MOST_TASKS) {
    throw new EnvironmentRefusal(
      422,
      `These are ${countText(length)} tasks, and an answer has at most ${countText(MOST_TASKS)}. Ask for parts of them by task_range.`,
    );
  }
  return Array.from({ length }, (_, i) => taskOf(rows.at(from + i)));
}

/** The place of a bound of a slice, counted from the end if it is negative. */
function placeOf(bound: number | null, missing: number, length: number): number {
  if (bound === null) return missing;
  return bound < 0 ? Math.max(0, length + bound) : Math.min(bound, length);
}
