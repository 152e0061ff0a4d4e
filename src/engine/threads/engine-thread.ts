/** One compute thread as the main thread sees it: messages to it and from it, and its end. What it computes is the affair of `worker.ts`. */
import { Worker } from 'node:worker_threads';
import { EngineLostError } from '../engine-errors.ts';
import type { FromThread, ToThread } from './messages.ts';

/** Of a thread's own JavaScript heap, in MB; the model and the cache lie outside it. */
const HEAP_LIMITS = { maxYoungGenerationSizeMb: 3, maxOldGenerationSizeMb: 512 };

export interface ThreadEvents {
  message(message: FromThread): void;
  /** Once at most, never after `terminate`. */
  lost(reason: EngineLostError): void;
}

export class EngineThread {
  readonly index: number;
  readonly #worker: Worker;
  #ended = false;

  constructor(index: number, events: ThreadEvents) {
    this.index = index;
    this.#worker = startWorker(index);
    const die = (what: string, cause?: unknown) => {
      if (this.#ended) return;
      this.#ended = true;
      events.lost(new EngineLostError(`expected thread ${index} of the embedded engine to run, it ${what}; open the engine anew`, { cause }));
    };
    this.#worker.on('message', (message: FromThread) => {
      if (!this.#ended) events.message(message);
    });
    this.#worker.on('error', (cause: unknown) => die(`failed: ${cause instanceof Error ? cause.message : String(cause)}`, cause));
    this.#worker.on('messageerror', (cause) => die('sent what cannot be read', cause));
    this.#worker.on('exit', (code) => die(`ended with code ${code}`));
  }

  post(message: ToThread): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is no window
    if (!this.#ended) this.#worker.postMessage(message);
  }

  /** Ends it at once, in the middle of a step if need be. */
  async terminate(): Promise<void> {
    this.#ended = true;
    await this.#worker.terminate();
  }
}

function startWorker(index: number): Worker {
  // From source the threads run TypeScript, from the build JavaScript; the compiler rewrites imports but no URLs. A bundle has neither file beside it.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./worker.${extension}`, import.meta.url), {
    name: `vf-search engine ${index}`,
    // No loader or condition of the main thread is needed there, and each would cost time at the start.
    execArgv: [],
    resourceLimits: HEAP_LIMITS,
  });
}
