/**
 * The parts of its surroundings that the engine needs: files, kernels and threads. `node-host.ts` has those of Node; a page brings its own. Everything else in the engine imports
 * nothing of Node, which the build of the page proves.
 */
import type { ByteSource } from '../files/byte-source.ts';
import type { WithinTime } from '../tokenizer/time-limit.ts';
import type { LoadedKernels } from './kernels/compile-kernels.ts';
import type { StartThread } from './threads/thread.ts';

export interface EngineHost {
  /** A model's or an adapter's directory by its path. */
  folder(path: string): ByteSource;
  loadKernels(): LoadedKernels | Promise<LoadedKernels>;
  /** Ends a tokenizer's search for a pattern that takes too long. @default it goes on */
  readonly withinTime?: WithinTime;
  readonly startThread: StartThread;
  /** Threads that compute at the same time. */
  readonly cores: number;
}
