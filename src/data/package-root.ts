import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../core/errors.ts';

let root: string | undefined;

/**
 * The folder with this package's package.json, `datasets/` and `environments/`, whether the code runs from `src`, from `dist/src` or under
 * node_modules.
 */
export function packageRoot(): string {
  root ??= findRoot(dirname(fileURLToPath(import.meta.url)));
  return root;
}

function findRoot(start: string): string {
  for (let folder = start; folder !== dirname(folder); folder = dirname(folder)) {
    if (packageName(join(folder, 'package.json')) === 'vf-search') return folder;
  }
  throw new ConfigError(`There is no package.json of vf-search in any folder above ${start}. Reinstall the package.`);
}

function packageName(path: string): string | null {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { name?: string }).name ?? null;
  } catch {
    // The file is missing or unreadable: continue in the folder above.
    return null;
  }
}

/** Version of this package. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { version: string }).version;
}
