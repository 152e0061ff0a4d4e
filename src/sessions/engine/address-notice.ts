/**
 * Warns before the embedded engine is opened in a process with a limited address space (`ulimit -v`). If addresses run out while a thread starts, V8 ends the process with a crash
 * report that nothing can catch. This cannot be predicted, because it depends on V8's reservations and releases in the meantime.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { MAX_MEMORY_BYTES } from '../../engine/compute/memory.ts';
import type { EngineOptions } from '../../engine/engine-types.ts';

/** Addresses of a command on Node 24 before it opens the engine, and of each engine thread (mostly reserved for compiled code). Measured, rounded up. */
const PROCESS_BYTES = 2e9;
const THREAD_BYTES = 640e6;

/** Returns one line; null if the limit suffices for this many threads or there is none. `limit` is in bytes. */
export function addressNotice(threads: number, limit: number | null = addressLimit()): string | null {
  const enough = PROCESS_BYTES + MAX_MEMORY_BYTES + threads * THREAD_BYTES;
  if (limit === null || limit >= enough) return null;
  const wanted = Math.ceil(enough / 1024 / 1e5) * 1e5;
  const counted = threads === 1 ? '1 thread' : `${threads} threads`;
  return `the address space is limited to ${Math.floor(limit / 1024)} KiB (ulimit -v), but the embedded engine with ${counted} needs up to ${wanted} KiB; if Node ends with "out of memory", raise the limit or use fewer threads`;
}

/** Null if there is no limit, or the system does not report one. */
function addressLimit(): number | null {
  if (process.platform !== 'linux') return null;
  const [, limit] = /^Max address space +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return limit === undefined ? null : Number(limit);
}

const MAX_DEFAULT_THREADS = 8;

/** Number of threads that the embedded engine starts for these options. */
export function engineThreads({ threads }: Pick<EngineOptions, 'threads'>): number {
  return threads ?? Math.min(availableParallelism(), MAX_DEFAULT_THREADS);
}
