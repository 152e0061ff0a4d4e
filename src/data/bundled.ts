/**
 * The data sets that come with the package, described by `datasets/MANIFEST.json`. Loading compares file sizes, a cheap check that finds a truncated or
 * converted file; the test suite compares the SHA-256 sums.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { packageRoot } from './package-root.ts';

export interface BundledFile {
  /** Relative to `datasets/`. */
  readonly path: string;
  /** Lines of a JSONL or TSV file; null for a picture. */
  readonly rows: number | null;
  readonly bytes: number;
  readonly sha256: string;
}

export interface BundledDataset {
  readonly description: string;
  /** SPDX identifier. */
  readonly license: string;
  readonly attribution: string;
  readonly sources: readonly Readonly<Record<string, string>>[];
  /** Split name → path of its questions. */
  readonly splits: Readonly<Record<string, string>>;
  /** Path of the passages that hold the answers; null for a set that needs none. */
  readonly corpus: string | null;
  readonly files: readonly BundledFile[];
}

export interface BundledManifest {
  readonly schema_version: 1;
  readonly datasets: Readonly<Record<string, BundledDataset>>;
}

/** The folder that the manifest's paths are relative to. */
export function datasetsFolder(): string {
  return join(packageRoot(), 'datasets');
}

export async function readBundledManifest(): Promise<BundledManifest> {
  return JSON.parse(await readFile(join(datasetsFolder(), 'MANIFEST.json'), 'utf8')) as BundledManifest;
}

/** The folder of a bundled data set's files, for those that are no records, such as pictures; null if no set has the name. */
export async function bundledFolder(name: string): Promise<string | null> {
  const { datasets } = await readBundledManifest();
  return Object.hasOwn(datasets, name) ? join(datasetsFolder(), name) : null;
}

/** Names of the sets of questions with passages of their own. */
export function questionSets({ datasets }: BundledManifest): string[] {
  return Object.entries(datasets).flatMap(([name, { corpus }]) => (corpus === null ? [] : [name]));
}

/** Names of the data sets with rows to train on. */
export function trainingSets({ datasets }: BundledManifest): string[] {
  return Object.entries(datasets).flatMap(([name, { splits }]) => ('train' in splits ? [name] : []));
}

/** Names of the data sets with questions about pages; their pages are a split. */
export function pageSets({ datasets }: BundledManifest): string[] {
  return Object.entries(datasets).flatMap(([name, { splits }]) => ('pages' in splits ? [name] : []));
}

/** Throws ConfigError if the file on disk is not the one in the manifest. */
export async function bundledPath(dataset: Pick<BundledDataset, 'files'>, path: string): Promise<{ path: string; file: BundledFile }> {
  const file = dataset.files.find((f) => f.path === path);
  if (file === undefined) throw new ConfigError(`datasets/MANIFEST.json has no entry for ${path}.`);
  const absolute = join(datasetsFolder(), path);
  const bytes = await stat(absolute).then(
    (s) => s.size,
    (cause: unknown) => {
      throw new ConfigError(`The bundled file ${absolute} is missing. Reinstall the package.`, { cause });
    },
  );
  if (bytes !== file.bytes) {
    throw new ConfigError(
      `${absolute} must have ${file.bytes} bytes, got ${bytes}: it was changed or truncated. Restore it from the package (and keep git from converting line endings).`,
    );
  }
  return { path: absolute, file };
}
