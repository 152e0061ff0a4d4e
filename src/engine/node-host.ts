import { availableParallelism } from 'node:os';
import { Folder } from '../files/folder.ts';
import type { EngineHost } from './engine-host.ts';
import { withinTime } from '../tokenizer/within-time.ts';
import { loadKernelsModule } from './kernels/load-kernels.ts';
import { EngineThread } from './threads/engine-thread.ts';

/** Node: folders on disk, the package's kernels, worker threads. */
export const nodeHost: EngineHost = {
  folder: (path) => new Folder(path),
  loadKernels: () => loadKernelsModule(),
  withinTime,
  startThread: (index, events) => new EngineThread(index, events),
  get cores() {
    return availableParallelism();
  },
};
