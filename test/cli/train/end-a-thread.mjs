/** Loaded before a command (`--import`): on SIGUSR2 the thread that it started last ends, as if it had crashed. The first one watches the event loop; those of the engine come later. */
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const threads = [];
  process.on('worker', (worker) => {
    threads.push(worker);
    worker.once('exit', () => threads.splice(threads.indexOf(worker), 1));
  });
  process.on('SIGUSR2', () => void threads.at(-1)?.terminate());
}
