/** The pool's side of one sandbox thread: one job at a time, each with a deadline; a thread that misses one is ended. `worker.ts` runs inside. */
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { abortError, onAbort } from '../../core/abort.ts';
import { ExecutionError } from '../../core/errors.ts';
import type { Attempt } from '../attempt.ts';
import type { Program } from './interpreter.ts';
import type { FromThread, ThreadJob, ThreadSetup } from './messages.ts';

/** A thread is ready within a second on an idle core. */
const START_MS = 30_000;
/** Deep recursion of CPython needs more than Node's default of 4 MB; the heap holds nothing but our own code and frames. */
const RESOURCE_LIMITS = { stackSizeMb: 8, maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 1 };

export class SandboxThread {
  readonly #worker: Worker;
  readonly #posted = new Int32Array(new SharedArrayBuffer(4));
  readonly #cpuMs = new Float64Array(new SharedArrayBuffer(8));
  #program: Program;
  #start = pending();
  #settle: ((outcome: Attempt) => void) | null = null;
  #alive = true;
  #wasReady = false;
  #isWaiting = false;

  constructor(setup: Omit<ThreadSetup, 'posted' | 'cpuMs'>) {
    this.#program = setup.program;
    this.#worker = startWorker({ ...setup, posted: this.#posted, cpuMs: this.#cpuMs });
    const timer = setTimeout(() => this.#end('did not start in time'), START_MS).unref();
    this.#worker.on('message', (message: FromThread) => {
      clearTimeout(timer);
      this.#take(message);
    });
    this.#worker.on('error', (cause: unknown) => this.#end(`failed: ${cause instanceof Error ? cause.message : String(cause)}`));
    this.#worker.on('exit', (code) => this.#end(`exited with code ${code}`));
  }

  /** Resolves when an interpreter waits for a job. Rejects with ExecutionError if the thread or its first interpreter does not start. */
  get ready(): Promise<void> {
    return this.#start.promise;
  }

  /** CPU time up to the end of its last job, in milliseconds. */
  get cpuMs(): number {
    return this.#cpuMs[0]!;
  }

  /** Once the thread is ready, this holds the compiled modules. */
  get program(): Program {
    return this.#program;
  }

  /** False once the thread has ended; it runs no further job. */
  get isAlive(): boolean {
    return this.#alive;
  }

  /** True once the thread has waited for jobs. */
  get wasReady(): boolean {
    return this.#wasReady;
  }

  /** True if an interpreter waits for a job. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Throws the signal's reason if it aborts; the thread then ends too. */
  async run(job: ThreadJob, { seconds, signal }: { readonly seconds: number; readonly signal: AbortSignal }): Promise<Attempt> {
    await this.ready;
    const { promise, resolve } = Promise.withResolvers<Attempt | 'aborted'>();
    this.#settle = resolve;
    this.#holdProcess();
    using _ = onAbort(signal, () => resolve('aborted'));
    // A reply that came while this thread was busy is taken before the deadline counts.
    const timer = setTimeout(
      () => setImmediate(() => resolve({ kind: 'ended', failure: 'timeout', detail: `The job ran for longer than ${seconds} s.` })),
      seconds * 1000,
    );
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
    this.#worker.postMessage({ ...job, fields: job.fields.map(encoded) });
    Atomics.add(this.#posted, 0, 1);
    Atomics.notify(this.#posted, 0);
    const outcome = await promise;
    clearTimeout(timer);
    this.#settle = null;
    this.#holdProcess();
    const stopped = outcome === 'aborted' || (outcome.kind === 'ended' && outcome.failure === 'timeout');
    if (stopped) await this.terminate();
    if (outcome === 'aborted') throw abortError(signal);
    return outcome;
  }

  async terminate(): Promise<void> {
    this.#alive = false;
    await this.#worker.terminate();
  }

  #take(message: FromThread): void {
    if (message.kind === 'ready') {
      this.#wasReady = true;
      this.#isWaiting = true;
      this.#program = message.program;
      this.#holdProcess();
      this.#start.resolve();
      return;
    }
    if (message.kind === 'failed') this.#end(`starts no interpreter: ${message.message}`);
    else {
      // The time of the next job does not count until its interpreter is ready.
      if (message.restarts) {
        this.#start = pending();
        this.#isWaiting = false;
      }
      this.#settle?.(message);
    }
  }

  /** The process stays alive while an interpreter starts or runs a job; idle interpreters do not keep it alive. */
  #holdProcess(): void {
    if (this.#alive && (!this.#isWaiting || this.#settle !== null)) this.#worker.ref();
    else this.#worker.unref();
  }

  #end(what: string): void {
    if (this.#alive) void this.#worker.terminate();
    this.#alive = false;
    this.#start.reject(new ExecutionError(`A sandbox thread ${what}. Check the memory that is free, and start again.`));
    this.#settle?.({ kind: 'ended', failure: 'crashed', detail: `The sandbox thread ${what}.` });
  }
}

/** Texts as bytes, which take no heap of the thread: beyond its limit, one text of a job would end the whole process. */
function encoded(field: string | Uint8Array): Uint8Array {
  return typeof field === 'string' ? new TextEncoder().encode(field) : field;
}

function pending(): PromiseWithResolvers<void> {
  const start = Promise.withResolvers<void>();
  // A caller that uses the thread awaits it; if no caller uses the thread, its failure does not matter.
  start.promise.catch(() => {});
  return start;
}

function startWorker(workerData: ThreadSetup): Worker {
  // The sources hold worker.ts, the build worker.js; the compiler rewrites imports but not URLs.
  const cache = getCompileCacheDir();
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./worker.${extension}`, import.meta.url), {
    name: 'vf-search sandbox',
    workerData,
    // The thread gets neither the variables of this process nor its loaders. The cache of compiled modules halves its start.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
    execArgv: [],
    resourceLimits: RESOURCE_LIMITS,
  });
}
