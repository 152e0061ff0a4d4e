/** CPython as WebAssembly in worker threads: no operating system is in its reach. Plain programs share warm interpreters, all others get new ones. */
import { CancelledError, TimeoutError } from '../../core/errors.ts';
import type {
  AnalyseOptions,
  CodeExecutor,
  CodeFacts,
  ExecutionJob,
  ExecutionLimits,
  ExecutionResult,
  ExecutorCapabilities,
} from '../code-executor.ts';
import { DEFAULT_LIMITS } from '../code-executor.ts';
import { readPythonSources, type Role } from '../python-sources.ts';
import { jobFields, readFacts, readResults, replyBytes } from '../runner-messages.ts';
import type { ThreadJob } from './messages.ts';
import { compilePython, WASI_PYTHON_VERSION } from './python-binary.ts';
import { ThreadPool } from './thread-pool.ts';

const PAGE_BYTES = 2 ** 16;
/** A parser that takes longer is attacked. */
const ANALYSIS_SECONDS = 10;
const ANALYSIS_BYTES = 256 * 2 ** 20;
const ANALYSIS_REPLY_BYTES = 64 * 2 ** 20;
const WARM = { hashSeed: 0, memoryPages: pages(DEFAULT_LIMITS.memoryBytes) };

export interface WasiOptions {
  /** Threads that run programs; one more reads them. */
  readonly workers: number;
}

export class WasiExecutor implements CodeExecutor {
  readonly capabilities: ExecutorCapabilities = { name: 'wasi', isolation: 'wasm', python: WASI_PYTHON_VERSION };
  readonly #runners: ThreadPool;
  readonly #analysts: ThreadPool;
  readonly #closed = new AbortController();

  private constructor(runners: ThreadPool, analysts: ThreadPool) {
    this.#runners = runners;
    this.#analysts = analysts;
  }

  /** Throws ExecutionError if the Python package is missing or no interpreter starts. */
  static async open({ workers }: WasiOptions): Promise<WasiExecutor> {
    const [runners, analysts] = [await openPool('runner', workers), await openPool('analyst', 1)];
    await runners.warmUp();
    return new WasiExecutor(runners, analysts);
  }

  async run(job: ExecutionJob, { signal }: { readonly signal: AbortSignal }): Promise<ExecutionResult> {
    const shared = isDefaultMemory(job.limits);
    const first = await this.#attempt(job, shared ? 'shared' : 'own', signal);
    // What breaks a warm interpreter is tried once more by itself, so that no program pays for another's remains.
    return first.kind === 'crashed' ? this.#attempt(job, 'own', signal) : first;
  }

  async #attempt(job: ExecutionJob, mode: ThreadJob['mode'], signal: AbortSignal): Promise<ExecutionResult> {
    const { seconds, memoryBytes, outputBytes } = job.limits;
    const threadJob = {
      fields: jobFields(job),
      mode,
      hashSeed: job.hashSeed,
      memoryPages: pages(memoryBytes),
      outputBytes,
      replyBytes: replyBytes(job),
    };
    const outcome = await this.#runners.run(threadJob, { seconds, signal: AbortSignal.any([signal, this.#closed.signal]) });
    return outcome.kind === 'ended' ? { kind: outcome.failure, detail: outcome.detail } : readResults(outcome.fields, job.calls.length);
  }

  async analyse(code: string, { signal, banned, bannedRule: rule, rewrites }: AnalyseOptions): Promise<CodeFacts> {
    const job: ThreadJob = {
      fields: [JSON.stringify({ code, banned, rule, rewrites })],
      mode: 'shared',
      hashSeed: 0,
      memoryPages: pages(ANALYSIS_BYTES),
      outputBytes: DEFAULT_LIMITS.outputBytes,
      replyBytes: ANALYSIS_REPLY_BYTES,
    };
    const outcome = await this.#analysts.run(job, { seconds: ANALYSIS_SECONDS, signal: AbortSignal.any([signal, this.#closed.signal]) });
    if (outcome.kind === 'ended') throw new TimeoutError(`The program cannot be analysed (${outcome.failure}): ${outcome.detail} Make it shorter.`);
    return readFacts(outcome.fields);
  }

  async close(): Promise<void> {
    this.#closed.abort(new CancelledError('The executor was closed.'));
    await Promise.all([this.#runners.close(), this.#analysts.close()]);
  }
}

async function openPool(role: Role, threads: number): Promise<ThreadPool> {
  const { module, initialPages } = await compilePython();
  const program = { module, initialPages, ...(await readPythonSources(role)) };
  const warm = role === 'runner' ? WARM : { hashSeed: 0, memoryPages: pages(ANALYSIS_BYTES) };
  return new ThreadPool({ program, warm }, threads);
}

const isDefaultMemory = ({ memoryBytes }: ExecutionLimits): boolean => memoryBytes === DEFAULT_LIMITS.memoryBytes;

function pages(bytes: number): number {
  return Math.floor(bytes / PAGE_BYTES);
}
