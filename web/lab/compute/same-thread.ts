/** The engine's only thread in a page that may not share memory: the calling thread. */
import { thrownText } from '../../../src/core/errors.ts';
import { EngineLostError } from '../../../src/engine/engine-errors.ts';
import type { StartThread } from '../../../src/engine/threads/thread.ts';
import { StepLoop } from './step-loop.ts';

/** Computes in the calling thread, one step per turn of the event loop. */
export const sameThread: StartThread = (index, events) => {
  const loop = new StepLoop(
    (message) => events.message(message),
    (cause) => events.lost(lostThread(index, `failed: ${thrownText(cause)}`)),
  );
  return {
    post: (message) => loop.take(message),
    terminate: async () => loop.end(),
  };
};

export function lostThread(index: number, what: string): EngineLostError {
  return new EngineLostError(`Thread ${index} of the embedded engine ${what}; open a new engine`);
}
