import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** The target of a path, even if its last parts do not exist yet. */
export function realPath(path: string): string {
  const full = resolve(path);
  if (existsSync(full)) return realpathSync(full);
  return dirname(full) === full ? full : join(realPath(dirname(full)), basename(full));
}
