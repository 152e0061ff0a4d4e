/** Entry point of a compute thread: a Web Worker that shares the engine's memory. */
import type { ToThread } from '../../../src/engine/threads/messages.ts';
import { StepLoop } from './step-loop.ts';

const loop = new StepLoop(
  (message) => postMessage(message),
  // The owner hears of it by the event `error`.
  (cause) => reportError(cause),
);
addEventListener('message', ({ data }: MessageEvent<ToThread>) => loop.take(data));
