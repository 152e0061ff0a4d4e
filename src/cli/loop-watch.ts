/**
 * Gives Ctrl-C and SIGTERM their default effect while the event loop stands still. The handlers of a command run in its loop, so a pattern or a module that never returns
 * would leave only SIGKILL. A thread watches the loop and puts the handlers aside through the inspector, which reaches a loop that is busy with JavaScript.
 */
import { Worker } from 'node:worker_threads';
import { putSignalsAside } from '../files/signals-aside.ts';

const BEAT_MS = 500;
/** A loop that stands still for so long is taken to hang, in milliseconds. */
const STILL_AFTER_MS = 5000;

export interface WatchedLoop {
  /** Counts the beats of the loop. [1] */
  readonly beats: Int32Array;
  /** 1 while the handlers are put aside. [1] */
  readonly isAside: Int32Array;
  readonly stillAfterMs: number;
  /** JavaScript that the thread evaluates in the main one. */
  readonly putAside: string;
}

let isWatched = false;

/** Once in a process. Does not keep it alive. Its start costs some 30 ms, so that help does without. `stillAfterMs` shortens tests. */
export function watchLoop({ stillAfterMs = STILL_AFTER_MS }: { readonly stillAfterMs?: number } = {}): void {
  if (isWatched) return;
  isWatched = true;
  const [beats, isAside] = [new Int32Array(new SharedArrayBuffer(4)), new Int32Array(new SharedArrayBuffer(4))];
  let aside: Disposable | null = null;
  const key = Symbol.for('vf-search.put-signals-aside');
  Object.defineProperty(globalThis, key, {
    value: () => {
      aside = putSignalsAside();
      Atomics.store(isAside, 0, 1);
      Atomics.notify(isAside, 0);
    },
  });
  setInterval(
    () => {
      Atomics.add(beats, 0, 1);
      aside?.[Symbol.dispose]();
      aside = null;
      Atomics.store(isAside, 0, 0);
    },
    Math.min(BEAT_MS, stillAfterMs / 4),
  ).unref();
  // The sources hold loop-watcher.ts, the build loop-watcher.js; the compiler rewrites imports but not URLs.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const watched: WatchedLoop = { beats, isAside, stillAfterMs, putAside: `globalThis[Symbol.for(${JSON.stringify(key.description)})]()` };
  const watcher = new Worker(new URL(`./loop-watcher.${extension}`, import.meta.url), {
    name: 'vf-search loop watch',
    workerData: watched,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 64 },
  });
  // A command works without it.
  watcher.on('error', () => {});
  watcher.unref();
}
