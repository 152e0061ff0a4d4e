/** Memory of large things that were just closed, given back before the next large thing comes: left alone, V8 waits until it is short of it. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  // The flag adds it to the globals of contexts made from now on.
  (runInNewContext('gc') as () => void)();
}
