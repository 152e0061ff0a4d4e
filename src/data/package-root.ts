import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../core/errors.ts';

let root: string | undefined;

/**
 * The folder that holds this package's package.json, `datasets/` and `environments/`: the same one whether the code runs from `src`, from
 * `dist/src` or installed under node_modules.
 */
export function packageRoot(): string {
  root ??= findRoot(dirname(fileURLToPath(import.meta.url)));
  return root;
}

function findRoot(start: string): string {
  for (let folder = start; folder !== dirname(folder); folder = dirname(folder)) {
    if (packageName(join(folder, 'package.json')) === 'vf-search') return folder;
  }
  throw new ConfigError(`Expected the package.json of vf-search in a folder above ${start}, found none; install the package again`);
}

function packageName(path: string): string | null {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { name?: string }).name ?? null;
  } catch {
    // No such file, or one that is not ours to judge: the search goes on above it.
    return null;
  }
}

/** Version of this package. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { version: string }).version;
}
