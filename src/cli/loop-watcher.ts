/** The thread of `watchLoop`. */
import { Session } from 'node:inspector';
import { workerData } from 'node:worker_threads';
import type { WatchedLoop } from './loop-watch.ts';

const { beats, isAside, stillAfterMs, putAside } = workerData as WatchedLoop;
const session = new Session();
const pause = new Int32Array(new SharedArrayBuffer(4));
let seen = -1;
for (;;) {
  // Two looks, so that a machine that slept does not look like a loop that hangs.
  Atomics.wait(pause, 0, 0, stillAfterMs / 2);
  const isStill =
    Atomics.load(beats, 0) === seen && Atomics.wait(beats, 0, seen, stillAfterMs / 2) === 'timed-out' && Atomics.load(beats, 0) === seen;
  if (!isStill) {
    seen = Atomics.load(beats, 0);
    continue;
  }
  session.connectToMainThread();
  session.post('Runtime.evaluate', { expression: putAside });
  // A process that exits with a session waits for it, and says so.
  while (Atomics.load(beats, 0) === seen && Atomics.wait(isAside, 0, 0, stillAfterMs / 2) === 'timed-out');
  session.disconnect();
  // Until the loop turns again.
  while (Atomics.load(beats, 0) === seen) Atomics.wait(pause, 0, 0, stillAfterMs / 2);
}
