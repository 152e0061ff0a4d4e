import { basename } from 'node:path';
import { withoutTrailingSlashes } from '../../core/server-url.ts';

/** The servers' path of a run's adapters: `{run}` in the setting stands for the name of the run's folder, which is not known before the run. Null if it is that of this machine. */
export function serverAdapterDir(setting: string | null, runDirectory: string): string | null {
  const path = setting?.replaceAll('{run}', () => basename(runDirectory));
  return path === undefined ? null : withoutTrailingSlashes(path);
}
