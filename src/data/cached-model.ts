/** Finds models in the cache of huggingface_hub, where transformers, vLLM and the gradient worker download them. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readRegularFileSync } from '../files/regular-file.ts';
import { hubCacheFolder } from './hub-cache.ts';

/** The folder of a hub id, `main` if there are several revisions; null if the model is not in the cache. */
export function cachedModel(id: string, env: Readonly<Record<string, string | undefined>>): string | null {
  if (!/^[\w.-]+(?:\/[\w.-]+)?$/.test(id) || id.includes('..')) return null;
  const folder = join(hubCacheFolder(env), `models--${id.replace('/', '--')}`);
  const snapshots = join(folder, 'snapshots');
  if (!existsSync(snapshots)) return null;
  const main = join(folder, 'refs', 'main');
  const wanted = existsSync(main) ? readRegularFileSync(main).trim() : '';
  const commits = [wanted, ...readdirSync(snapshots).toSorted()].filter((commit) => /^[0-9a-f]{40}$/.test(commit));
  return commits.map((commit) => join(snapshots, commit)).find((path) => existsSync(join(path, 'config.json'))) ?? null;
}
