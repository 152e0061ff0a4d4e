import type { CodeExecutor, CodeFacts, ExecutionJob, ExecutionResult, ExecutorCapabilities } from 'vf-search/execution';

/** An executor that knows for how long it was at work: the time in which at least one program was being read or run. */
export class MeteredExecutor implements CodeExecutor {
  readonly #executor: CodeExecutor;
  #inFlight = 0;
  #startedAtMs = 0;
  #busyMs = 0;

  constructor(executor: CodeExecutor) {
    this.#executor = executor;
  }

  get capabilities(): ExecutorCapabilities {
    return this.#executor.capabilities;
  }

  /** Seconds since the last call. */
  takeSeconds(): number {
    const now = performance.now();
    const busyMs = this.#busyMs + (this.#inFlight === 0 ? 0 : now - this.#startedAtMs);
    this.#busyMs = 0;
    this.#startedAtMs = now;
    return busyMs / 1000;
  }

  run(job: ExecutionJob, options: { readonly signal: AbortSignal }): Promise<ExecutionResult> {
    return this.#timed(() => this.#executor.run(job, options));
  }

  analyse(code: string, options: Parameters<CodeExecutor['analyse']>[1]): Promise<CodeFacts> {
    return this.#timed(() => this.#executor.analyse(code, options));
  }

  close(): Promise<void> {
    return this.#executor.close();
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    if (this.#inFlight++ === 0) this.#startedAtMs = performance.now();
    try {
      return await work();
    } finally {
      if (--this.#inFlight === 0) this.#busyMs += performance.now() - this.#startedAtMs;
    }
  }
}
