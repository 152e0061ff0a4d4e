/** Sandbox threads of one kind: at most so many jobs at a time, the others wait their turn. A thread that ended is replaced. */
import { Limiter } from '../../core/limiter.ts';
import type { ThreadJob, ThreadSetup } from './messages.ts';
import { SandboxThread, type ThreadOutcome } from './sandbox-thread.ts';

export class ThreadPool {
  readonly #setup: Omit<ThreadSetup, 'posted'>;
  readonly #limiter: Limiter;
  readonly #idle: SandboxThread[] = [];
  readonly #all = new Set<SandboxThread>();

  constructor(setup: Omit<ThreadSetup, 'posted'>, threads: number) {
    this.#setup = setup;
    this.#limiter = new Limiter(threads);
  }

  /** Starts a thread ahead of the first job. Throws ExecutionError if it does not start. */
  async warmUp(): Promise<void> {
    const thread = this.#idle.pop() ?? this.#start();
    await thread.ready;
    this.#idle.push(thread);
  }

  /** Throws ExecutionError if no thread starts, and what the signal was aborted with. */
  run(job: ThreadJob, limits: { readonly seconds: number; readonly signal: AbortSignal }): Promise<ThreadOutcome> {
    return this.#limiter.run(async () => {
      const thread = this.#idle.pop() ?? this.#start();
      await thread.ready;
      try {
        return await thread.run(job, limits);
      } finally {
        if (!thread.isAlive) this.#all.delete(thread);
        // Its successor starts while other jobs run.
        this.#idle.push(thread.isAlive ? thread : this.#start());
      }
    }, limits.signal);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map((thread) => thread.terminate()));
  }

  #start(): SandboxThread {
    const thread = new SandboxThread(this.#setup);
    this.#all.add(thread);
    return thread;
  }
}
