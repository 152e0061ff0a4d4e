/** A compute thread of Node; `worker.ts` does the computing. */
import { Worker } from 'node:worker_threads';
import { EngineLostError } from '../engine-errors.ts';
import type { FromThread, ToThread } from './messages.ts';
import type { Thread, ThreadEvents } from './thread.ts';

/** Limits of a thread's own JavaScript heap, in MB; the model and the cache lie outside it. */
const HEAP_LIMITS = { maxYoungGenerationSizeMb: 3, maxOldGenerationSizeMb: 512 };

export class EngineThread implements Thread {
  readonly #worker: Worker;
  #ended = false;

  constructor(index: number, events: ThreadEvents) {
    this.#worker = startWorker(index);
    const die = (what: string, cause?: unknown) => {
      if (this.#ended) return;
      this.#ended = true;
      events.lost(new EngineLostError(`Thread ${index} of the embedded engine ${what}; open a new engine`, { cause }));
    };
    this.#worker.on('message', (message: FromThread) => {
      if (!this.#ended) events.message(message);
    });
    this.#worker.on('error', (cause: unknown) => die(`failed: ${cause instanceof Error ? cause.message : String(cause)}`, cause));
    this.#worker.on('messageerror', (cause) => die('sent an unreadable message', cause));
    this.#worker.on('exit', (code) => die(`exited with code ${code}`));
  }

  post(message: ToThread): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
    if (!this.#ended) this.#worker.postMessage(message);
  }

  async terminate(): Promise<void> {
    this.#ended = true;
    await this.#worker.terminate();
  }
}

function startWorker(index: number): Worker {
  // The sources hold worker.ts, the build worker.js; the compiler rewrites imports but not URLs. In a bundle neither file exists.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./worker.${extension}`, import.meta.url), {
    name: `vf-search engine ${index}`,
    // The worker needs none of the main thread's loaders and conditions, and each would slow its start.
    execArgv: [],
    resourceLimits: HEAP_LIMITS,
  });
}
