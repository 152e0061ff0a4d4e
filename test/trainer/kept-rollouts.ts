/** What the rollouts folder of a run holds, compressed or not. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

/** Names of the files of rollouts as they were written, without `.gz`. */
export function rolloutNames(run: string): string[] {
  return rolloutFilesOf(run)
    .map((name) => name.replace(/\.gz$/, ''))
    .toSorted();
}

/** Without those of advantages, of which each trained step has one. */
export function rolloutFilesOf(run: string): string[] {
  return readdirSync(join(run, 'rollouts')).filter((name) => !name.includes('_advantages'));
}

/** The text of `rollouts/<name>`, which may be compressed. */
export function rolloutText(run: string, name: string): string {
  const path = join(run, 'rollouts', name);
  return existsSync(path) ? readFileSync(path, 'utf8') : gunzipSync(readFileSync(`${path}.gz`)).toString('utf8');
}
