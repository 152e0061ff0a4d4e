/**
 * A word before the embedded engine is opened in a process that may have few addresses (`ulimit -v`). Where they run out while a thread is opened, V8 ends the process with a page
 * of its own words that nothing can catch; whether they do cannot be told beforehand, for it depends on what V8 takes and gives back meanwhile.
 */
import { readFileSync } from 'node:fs';
import { MAX_MEMORY_BYTES } from '../engine/compute/memory.ts';

/** Of a command on Node 24 before it opens the engine, and of one of its threads, most of it for code that may be compiled; both measured, and rounded up. */
const PROCESS_BYTES = 2e9;
const THREAD_BYTES = 640e6;

/** One line; null where so many threads find enough, or there is no limit. `limit` is in bytes. */
export function addressNotice(threads: number, limit: number | null = addressLimit()): string | null {
  const enough = PROCESS_BYTES + MAX_MEMORY_BYTES + threads * THREAD_BYTES;
  if (limit === null || limit >= enough) return null;
  const wanted = Math.ceil(enough / 1024 / 1e5) * 1e5;
  const counted = threads === 1 ? '1 thread' : `${threads} threads`;
  return `this process may have ${Math.floor(limit / 1024)} KiB of addresses (ulimit -v), the embedded engine with ${counted} takes up to ${wanted}: should Node end with "out of memory", raise the limit or take fewer threads`;
}

/** Null where there is none, and on systems that do not tell it. */
function addressLimit(): number | null {
  if (process.platform !== 'linux') return null;
  const [, limit] = /^Max address space +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return limit === undefined ? null : Number(limit);
}
