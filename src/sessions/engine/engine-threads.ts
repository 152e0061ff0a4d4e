import { availableParallelism } from 'node:os';
import type { EngineOptions } from '../../engine/engine-types.ts';

const MAX_DEFAULT_THREADS = 8;

/** Number of threads that the embedded engine starts for these options. */
export function engineThreads({ threads }: Pick<EngineOptions, 'threads'>): number {
  return threads ?? Math.min(availableParallelism(), MAX_DEFAULT_THREADS);
}
