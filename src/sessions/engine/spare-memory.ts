/**
 * Saves memory in a laptop run or a policy server. By default V8 gives a busy process a large young generation and keeps garbage until memory is short. Savings measured on the
 * laptop preset: 100 MB and 80 MB of 510. On a policy server with 64 clients: 140 MB of 435, for a tenth more main-thread time.
 */
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { collectGarbage as collect } from '../../execution/collect-garbage.ts';

/** Stops this thread's young generation from growing. */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * Makes V8 collect the old generation once it has grown by half, instead of several times over. For a server whose requests live for seconds: 512 sessions on an
 * environment server rose to 514 MB in five minutes, of them 70 MB alive.
 */
export function collectOldObjectsEarly(): void {
  setFlagsFromString('--heap-growing-percent=50');
}

/** V8's kind of collection that also returns pages to the system. The regular one keeps them: in a laptop run half of the heap. */
const RETURNING_PAGES = { type: 'major', execution: 'sync', flavor: 'last-resort' } as const;

/** Frees the memory of parts that were just closed, before the next large allocation. */
export function collectGarbage(): void {
  collect(RETURNING_PAGES);
}

/** A small run has 32 MB of live objects, and collecting then takes some 100 ms. */
const GARBAGE_BYTES = 24e6;
/** A run with small steps takes thousands of them to make 24 MB of garbage, and would seem to leak until then. */
const LITTLE_GARBAGE_BYTES = 2e6;
const LITTLE_GARBAGE_MS = 20_000;
const collected = { bytes: 32e6, atMs: performance.now() };

/**
 * Collects once heap and buffers hold 24 MB more than after the last collection, or 2 MB more if that was at least 20 s ago. V8 alone would wait for several times the live size: a laptop run reached 120 MB and 50 MB of
 * buffers. A multiple of the live size would let the memory of a long run rise by several times its live size.
 */
export function collectGarbageInTime(): void {
  // process.memoryUsage() also reads the size of the process from the system, which takes 70 µs.
  const held = () => {
    const { used_heap_size: heap, external_memory: buffers } = getHeapStatistics();
    return heap + buffers;
  };
  const garbage = held() - collected.bytes;
  const isOld = performance.now() - collected.atMs >= LITTLE_GARBAGE_MS;
  if (garbage < (isOld ? LITTLE_GARBAGE_BYTES : GARBAGE_BYTES)) return;
  collectGarbage();
  collected.bytes = held();
  collected.atMs = performance.now();
}
