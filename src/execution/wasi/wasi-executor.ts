/** CPython as WebAssembly in worker threads, where it can reach no operating system. Plain programs share warm interpreters, all others get new ones. */
import type { AnalyseOptions, CodeExecutor, CodeFacts, ExecutionJob, ExecutionResult, ExecutorCapabilities } from '../code-executor.ts';
import { ANALYSIS_LIMITS, DEFAULT_LIMITS } from '../code-executor.ts';
import { readPythonSources, type Role } from '../python-sources.ts';
import type { Attempt, RunMode } from '../attempt.ts';
import { runJob } from '../run-job.ts';
import { ANALYSIS_REPLY_BYTES, analysisFields, jobFields, readFacts, replyBytes } from '../runner-messages.ts';
import type { ThreadJob } from './messages.ts';
import { compilePython, WASI_PYTHON_VERSION } from './python-binary.ts';
import { type RunLimits, ThreadPool } from './thread-pool.ts';

const PAGE_BYTES = 2 ** 16;
const WARM = { hashSeed: 0, memoryPages: pages(DEFAULT_LIMITS.memoryBytes) };

export interface WasiOptions {
  /** Threads that run programs; one more reads them. */
  readonly workers: number;
}

export class WasiExecutor implements CodeExecutor {
  readonly capabilities: ExecutorCapabilities = { name: 'wasi', isolation: 'wasm', python: WASI_PYTHON_VERSION };
  readonly #runners: ThreadPool;
  readonly #analysts: ThreadPool;

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

  run(job: ExecutionJob, { signal, turn }: Parameters<CodeExecutor['run']>[1]): Promise<ExecutionResult> {
    // The memory of the warm interpreters is the default.
    const mode = job.limits.memoryBytes === DEFAULT_LIMITS.memoryBytes ? 'shared' : 'own';
    return runJob(job, mode, (part, partMode) => this.#attempt(part, partMode, { signal, turn }));
  }

  #attempt(job: ExecutionJob, mode: RunMode, place: Omit<RunLimits, 'seconds'>): Promise<Attempt> {
    const { seconds, memoryBytes, outputBytes } = job.limits;
    const threadJob = {
      fields: jobFields(job),
      mode,
      hashSeed: job.hashSeed,
      memoryPages: pages(memoryBytes),
      outputBytes,
      replyBytes: replyBytes(job),
    };
    return this.#runners.run(threadJob, { seconds, ...place });
  }

  async analyse(code: string, { signal, turn, ...options }: AnalyseOptions): Promise<CodeFacts> {
    const job: ThreadJob = {
      fields: analysisFields(code, options),
      mode: 'shared',
      hashSeed: 0,
      memoryPages: pages(ANALYSIS_LIMITS.memoryBytes),
      outputBytes: ANALYSIS_LIMITS.outputBytes,
      replyBytes: ANALYSIS_REPLY_BYTES,
    };
    return readFacts(await this.#analysts.run(job, { seconds: ANALYSIS_LIMITS.seconds, signal, turn }));
  }

  get cpuSeconds(): number {
    return (this.#runners.cpuMs + this.#analysts.cpuMs) / 1000;
  }

  async close(): Promise<void> {
    await Promise.all([this.#runners.close(), this.#analysts.close()]);
  }
}

async function openPool(role: Role, threads: number): Promise<ThreadPool> {
  const { module, initialPages } = await compilePython();
  const program = { module, initialPages, ...(await readPythonSources(role)) };
  const warm = role === 'runner' ? WARM : { hashSeed: 0, memoryPages: pages(ANALYSIS_LIMITS.memoryBytes) };
  return new ThreadPool({ program, warm }, threads);
}

function pages(bytes: number): number {
  return Math.floor(bytes / PAGE_BYTES);
}
