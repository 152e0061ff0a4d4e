import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

let gc: (() => void) | null = null;

/** Collects the garbage of this thread. */
export function collectGarbage(): void {
  if (gc === null) {
    setFlagsFromString('--expose-gc');
    // The flag adds `gc` to the globals of new contexts.
    gc = runInNewContext('gc') as () => void;
  }
  gc();
}
