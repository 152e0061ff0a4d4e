/** Sandbox threads of one kind: a limited number of jobs runs at a time, and the others wait their turn. A thread that ended is replaced. */
import { abortError, untilAborted } from '../../core/abort.ts';
import { CancelledError } from '../../core/errors.ts';
import { Limiter, type Turn } from '../../core/limiter.ts';
import type { ThreadJob, ThreadSetup } from './messages.ts';
import type { Attempt } from '../attempt.ts';
import { SandboxThread } from './sandbox-thread.ts';

export interface RunLimits {
  readonly seconds: number;
  readonly signal: AbortSignal;
  readonly turn?: Turn | undefined;
}

export class ThreadPool {
  #setup: Omit<ThreadSetup, 'posted' | 'cpuMs'>;
  readonly #limiter: Limiter;
  readonly #idle: SandboxThread[] = [];
  readonly #all = new Set<SandboxThread>();
  #closed = false;
  #endedCpuMs = 0;

  constructor(setup: Omit<ThreadSetup, 'posted' | 'cpuMs'>, threads: number) {
    this.#setup = setup;
    this.#limiter = new Limiter(threads);
  }

  /** Starts a thread ahead of the first job. Throws ExecutionError if it does not start. */
  async warmUp(): Promise<void> {
    const thread = this.#take();
    await thread.ready;
    this.#giveBack(thread);
  }

  /** Throws ExecutionError if no thread starts, CancelledError once the pool is closed, and the signal's reason if it aborts. */
  run(job: ThreadJob, limits: RunLimits): Promise<Attempt> {
    return this.#limiter.run(
      async () => {
        this.#assertOpen();
        const thread = this.#take();
        try {
          return await this.#runOn(thread, job, limits);
        } finally {
          this.#giveBack(thread);
        }
      },
      limits.signal,
      { turn: limits.turn ?? null },
    );
  }

  async #runOn(thread: SandboxThread, job: ThreadJob, limits: RunLimits): Promise<Attempt> {
    const { signal } = limits;
    try {
      if (!thread.isWaiting) await untilAborted(thread.ready, signal, () => abortError(signal));
      const attempt = await thread.run(job, limits);
      this.#assertOpen();
      return attempt;
    } catch (error) {
      // Closing the pool ends its threads, which makes their jobs fail.
      this.#assertOpen();
      throw error;
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new CancelledError('The executor was closed.');
  }

  /** CPU time of all its threads so far, in milliseconds; without jobs that are not over. */
  get cpuMs(): number {
    return [...this.#all].reduce((sum, thread) => sum + thread.cpuMs, this.#endedCpuMs);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#all].map((thread) => thread.terminate()));
  }

  /** The thread that became idle last, because its code is warm. One that waits is preferred to one that still starts. */
  #take(): SandboxThread {
    const waiting = this.#idle.findLastIndex((thread) => thread.isWaiting);
    return this.#idle.splice(waiting, 1)[0] ?? this.#start();
  }

  /** The successor of a thread that ended starts while other jobs run; one that did not even start has none. */
  #giveBack(thread: SandboxThread): void {
    if (!thread.isAlive && this.#all.delete(thread)) this.#endedCpuMs += thread.cpuMs;
    this.#setup = { ...this.#setup, program: thread.program };
    if (thread.isAlive) this.#idle.push(thread);
    else if (thread.wasReady && !this.#closed) this.#idle.push(this.#start());
  }

  #start(): SandboxThread {
    const thread = new SandboxThread(this.#setup);
    this.#all.add(thread);
    return thread;
  }
}
