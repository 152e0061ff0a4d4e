import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** The options that V8's `gc` takes. */
export interface CollectionOptions {
  readonly type: 'major' | 'minor';
  readonly execution: 'sync';
  readonly flavor: 'regular' | 'last-resort';
}

let gc: ((options?: CollectionOptions) => void) | null = null;

/** Collects the garbage of this thread, without Node's flag `--expose-gc`. */
export function collectGarbage(options?: CollectionOptions): void {
  if (gc === null) {
    setFlagsFromString('--expose-gc');
    // The flag adds `gc` to the globals of new contexts.
    gc = runInNewContext('gc') as NonNullable<typeof gc>;
  }
  gc(options);
}
