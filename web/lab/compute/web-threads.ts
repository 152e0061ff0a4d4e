/** The engine's threads in a page that may share memory: Web Workers. */
import type { FromThread, ToThread } from '../../../src/engine/threads/messages.ts';
import type { StartThread, Thread, ThreadEvents } from '../../../src/engine/threads/thread.ts';
import { lostThread } from './same-thread.ts';

/** Starts Web Workers from the script of `thread.ts`. */
export function workerThreads(script: URL): StartThread {
  return (index, events) => new WorkerThread(new Worker(script, { name: `vf-search engine ${index}` }), index, events);
}

class WorkerThread implements Thread {
  readonly #worker: Worker;
  #ended = false;

  constructor(worker: Worker, index: number, events: ThreadEvents) {
    this.#worker = worker;
    const die = (what: string) => {
      if (this.#ended) return;
      this.#ended = true;
      worker.terminate();
      events.lost(lostThread(index, what));
    };
    worker.addEventListener('message', ({ data }: MessageEvent<FromThread>) => {
      if (!this.#ended) events.message(data);
    });
    worker.addEventListener('error', (event) => die(`failed: ${event.message || 'its script could not be loaded'}`));
    worker.addEventListener('messageerror', () => die('sent an unreadable message'));
  }

  post(message: ToThread): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
    if (!this.#ended) this.#worker.postMessage(message);
  }

  async terminate(): Promise<void> {
    this.#ended = true;
    this.#worker.terminate();
  }
}
