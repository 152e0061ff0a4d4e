/** Loaded before a command (`--import`): on SIGUSR2 one of the threads that it started ends, as if it had crashed. */
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const threads = [];
  process.on('worker', (worker) => {
    threads.push(worker);
    worker.once('exit', () => threads.splice(threads.indexOf(worker), 1));
  });
  process.on('SIGUSR2', () => void threads[0]?.terminate());
}
