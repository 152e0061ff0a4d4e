/** The base model's name in `adapter_config.json`: a name that other machines understand if there is one, and never an absolute path. */
import { isAbsolute, relative } from 'node:path';

/** A model's folder in the cache of huggingface_hub. */
const CACHED = /(?:^|[/\\])models--([\w.-]+)[/\\]snapshots[/\\][0-9a-f]{40}[/\\]?$/;

/**
 * `path` is a hub id or the directory of the base. A folder of the hub's cache becomes its hub id. Any other absolute path becomes relative to the working
 * directory, where peft and transformers look for it. The rest stays as it is.
 */
export function baseName(path: string): string {
  const cached = cachedHubId(path);
  if (cached !== null) return cached;
  return isAbsolute(path) ? relative('', path) || '.' : path;
}

/** The hub id of a folder in the hub's cache; null for any other path. */
export function cachedHubId(path: string): string | null {
  const name = CACHED.exec(path)?.[1];
  // Names in hub ids hold no double dash.
  return name === undefined ? null : name.replace('--', '/');
}
