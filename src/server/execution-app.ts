/** `POST /run` and `POST /analyse` of a CodeExecutor, for environments outside this package. */
import { type Context, Hono } from 'hono';
import { eitherSignal } from '../core/abort.ts';
import { CancelledError, ExecutionError, TimeoutError } from '../core/errors.ts';
import type { Turn } from '../core/limiter.ts';
import { readJson } from '../core/read-json.ts';
import { type AnalyseOptions, type CodeExecutor, DEFAULT_LIMITS, type ExecutionLimits } from '../execution/code-executor.ts';
import { type AnalyseRequest, AnalyseRequestSchema, MOST_REPR_CHARACTERS, type RunRequest, RunRequestSchema } from '../schemas/execution-server.ts';
import { camelKeys, snakeKeys } from '../schemas/key-case.ts';
import { schemaCheck, schemaProblem } from '../schemas/schema-check.ts';
import { BodyBudget, DEFAULT_BODY_TIMEOUT_MS, type ReadBody } from './bounded-body.ts';
import { clientOf } from './client-of.ts';
import { hostCheck, isJson, WRONG_HOST } from './door.ts';
import { PendingJobs } from './pending-jobs.ts';

export interface ExecutionAppOptions {
  readonly executor: CodeExecutor;
  /** The address that the app listens on. A loopback server answers only requests for a name of this machine. */
  readonly host: string;
  /** Most jobs that run or wait; others get a 503 with retry-after. @default 256 */
  readonly maxPending?: number;
  /** The longest limit of time that a request may set, in seconds. @default 10 */
  readonly maxSeconds?: number;
  /** The largest limit of memory that a request may set, in bytes. @default 256 MiB */
  readonly maxMemoryBytes?: number;
  /** @default 16 MiB */
  readonly maxBodyBytes?: number;
  /** Called for every failure that is not a program's. */
  readonly onFailure: (error: unknown) => void;
}

/** All calls of a request together may take as many times the longest limit of one. */
const MOST_LIMITS = 30;

/** What a request asks for. */
interface Work {
  /** The longest that it may take. */
  readonly costMs: number;
}

interface Route<T extends Work> {
  /** Throws Refusal. */
  readonly check: (request: unknown) => T;
  readonly work: (wanted: T, place: { readonly signal: AbortSignal; readonly turn: Turn }) => Promise<object>;
}

type Status = 400 | 403 | 408 | 413 | 415 | 422 | 500 | 503;

/** A request that is refused. */
class Refusal extends Error {
  readonly status: Status;

  constructor(status: Status, detail: string) {
    super(detail);
    this.status = status;
  }
}

const checkRun = schemaCheck(RunRequestSchema);
const checkAnalyse = schemaCheck(AnalyseRequestSchema);

export function executionApp(options: ExecutionAppOptions): Hono {
  const { executor, host, maxPending = 256, maxBodyBytes = 16 * 2 ** 20, onFailure } = options;
  const bounds = { maxSeconds: options.maxSeconds ?? 10, maxMemoryBytes: options.maxMemoryBytes ?? 256 * 2 ** 20 };
  const budget = new BodyBudget({ maxBodyBytes, maxTotalBytes: 8 * maxBodyBytes, bodyTimeoutMs: DEFAULT_BODY_TIMEOUT_MS });
  const namesThisServer = hostCheck(host);
  const pending = new PendingJobs(maxPending);

  /** Counted once the body is read, so that slow senders do not block the others. */
  async function answer<T extends Work>(body: ReadBody, raw: Request, { check, work }: Route<T>): Promise<object> {
    if (!body.ok) throw new Refusal(body.status, body.detail);
    const wanted = check(parsed(body.text));
    using job = pending.admit(clientOf(raw), wanted.costMs);
    if (job === null) throw new Refusal(503, `${pending.size} jobs are pending; try again later`);
    using either = eitherSignal(raw.signal, job.signal);
    try {
      return await work(wanted, { signal: either.signal, turn: job.turn });
    } catch (error) {
      if (!job.signal.aborted) throw error;
      throw new Refusal(503, 'Too many jobs are pending, and this one gave way to a shorter one or to one of another client; try again later');
    }
  }

  const app = new Hono();
  app.use(async (c, next) => (namesThisServer(c.req.raw) ? next() : refuse(c, new Refusal(403, WRONG_HOST))));
  const route = <T extends Work>(path: string, of: Route<T>) => {
    app.post(path, async (c) => {
      if (!isJson(c.req.raw)) throw new Refusal(415, 'The content-type of the body is not JSON. Send the header content-type: application/json.');
      // Read before anything is awaited; later the server no longer reports that a client disconnected.
      void c.req.raw.signal;
      return c.json(await budget.withBody(c.req.raw, (body) => answer(body, c.req.raw, of)));
    });
    app.all(path, (c) => c.json({ detail: 'Method Not Allowed' }, 405, { allow: 'POST' }));
  };
  route('/run', {
    check: (request) => {
      const job = jobOf(request, bounds);
      return { job, costMs: job.limits.seconds * 1000 * Math.min(MOST_LIMITS, job.calls.length) };
    },
    work: ({ job }, { signal, turn }) => runWithin(bounds.maxSeconds * MOST_LIMITS, signal, (either) => executor.run(job, { signal: either, turn })),
  });
  route('/analyse', {
    check: (request) => ({ ...analysisOf(request), costMs: DEFAULT_LIMITS.seconds * 1000 }),
    work: async ({ code, rules }, place) => snakeKeys(await executor.analyse(code, { ...rules, ...place })) as object,
  });
  app.get('/health', (c) => {
    const { name, isolation, python } = executor.capabilities;
    return c.json({ status: 'ok', executor: name, isolation, python, pending: pending.size });
  });
  app.notFound((c) => c.json({ detail: 'Not Found' }, 404));
  app.onError((error, c) => refuse(c, refusalOf(error, onFailure)));
  return app;
}

/** Throws Refusal if all of the job takes longer. A job that ends in time has the verdicts of its calls. */
async function runWithin<T>(seconds: number, signal: AbortSignal, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new CancelledError('The job took too long')), seconds * 1000);
  try {
    using either = eitherSignal(signal, late.signal);
    return await run(either.signal);
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    throw new Refusal(422, `The job took longer than ${seconds} seconds in all; send fewer calls at a time, or set a lower limit of seconds`);
  } finally {
    clearTimeout(timer);
  }
}

function parsed(text: string): unknown {
  try {
    return readJson(text);
  } catch (error) {
    throw new Refusal(422, `The body is not JSON: ${(error as Error).message}`);
  }
}

interface Bounds {
  readonly maxSeconds: number;
  readonly maxMemoryBytes: number;
}

function jobOf(request: unknown, { maxSeconds, maxMemoryBytes }: Bounds) {
  if (!checkRun(request)) throw new Refusal(422, schemaProblem(checkRun, 'The body'));
  const { code, calls, hash_seed: hashSeed = 0, limits: given = {} }: RunRequest = request;
  const defaults = { ...DEFAULT_LIMITS, seconds: Math.min(DEFAULT_LIMITS.seconds, maxSeconds) };
  const limits: ExecutionLimits = { ...defaults, ...(camelKeys(given) as Partial<ExecutionLimits>) };
  if (limits.seconds > maxSeconds) throw new Refusal(422, `limits.seconds must be at most ${maxSeconds} on this server, got ${limits.seconds}`);
  if (limits.memoryBytes > maxMemoryBytes)
    throw new Refusal(422, `limits.memory_bytes must be at most ${maxMemoryBytes} on this server, got ${limits.memoryBytes}`);
  if (calls.length * limits.reprLength > MOST_REPR_CHARACTERS)
    throw new Refusal(422, `calls times limits.repr_length must be at most ${MOST_REPR_CHARACTERS}; send fewer calls at a time`);
  return { code, calls, hashSeed, limits };
}

function analysisOf(request: unknown): { readonly code: string; readonly rules: Omit<AnalyseOptions, 'signal'> } {
  if (!checkAnalyse(request)) throw new Refusal(422, schemaProblem(checkAnalyse, 'The body'));
  const { code, banned = [], ...rules }: AnalyseRequest = request;
  return { code, rules: { ...(camelKeys(rules) as Partial<AnalyseOptions>), banned } };
}

function refusalOf(error: unknown, onFailure: (error: unknown) => void): Refusal {
  if (error instanceof Refusal) return error;
  // A program that the parser does not finish.
  if (error instanceof TimeoutError) return new Refusal(422, error.message);
  // The client has disconnected, or the server stops.
  if (error instanceof CancelledError) return new Refusal(503, 'The job was stopped');
  onFailure(error);
  return error instanceof ExecutionError ? new Refusal(503, error.message) : new Refusal(500, 'Internal Server Error');
}

function refuse(c: Context, { status, message }: Refusal): Response {
  // The rest of an unread body would be parsed as the next request.
  if (status === 408 || status === 413) c.header('connection', 'close');
  return c.json({ detail: message }, status, status === 503 ? { 'retry-after': '1' } : {});
}
