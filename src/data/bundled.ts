/**
 * The bundled data sets, described by `datasets/MANIFEST.json`; some of them are in the package vf-search-models. Loading compares file sizes, a cheap check that finds a truncated or
 * converted file; the test suite compares the SHA-256 sums.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { entryFolder, missingPackageError, type PackagedEntry } from './models-package.ts';
import { packageRoot } from './package-root.ts';

export interface BundledFile {
  /** Relative to the folder `datasets` of the set's package. */
  readonly path: string;
  /** Lines of a JSONL or TSV file; null for a picture. */
  readonly rows: number | null;
  readonly bytes: number;
  readonly sha256: string;
}

export interface BundledDataset extends PackagedEntry {
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

export async function readBundledManifest(): Promise<BundledManifest> {
  return JSON.parse(await readFile(join(packageRoot(), 'datasets/MANIFEST.json'), 'utf8')) as BundledManifest;
}

/**
 * The folder of a bundled data set's files, for files that hold no records, such as pictures; null if no set has the name. Throws ConfigError if the set's package
 * is not installed.
 */
export async function bundledFolder(name: string): Promise<string | null> {
  const { datasets } = await readBundledManifest();
  return Object.hasOwn(datasets, name) ? join(datasetsFolder(datasets[name]!, name), name) : null;
}

/** The folder to which the paths of the set's files are relative. Throws ConfigError if the set's package is not installed. */
export function datasetsFolder(dataset: PackagedEntry, name: string): string {
  const folder = entryFolder(dataset, 'datasets');
  if (folder === null) throw missingPackageError(`The data set ${name}`);
  return folder;
}

/** Names of the sets of questions with passages of their own. */
export function questionSets({ datasets }: BundledManifest): string[] {
  return Object.entries(datasets).flatMap(([name, { corpus }]) => (corpus === null ? [] : [name]));
}

/** Names of the data sets with rows to train on. */
export function trainingSets({ datasets }: BundledManifest): string[] {
  return Object.entries(datasets).flatMap(([name, { splits }]) => ('train' in splits ? [name] : []));
}

/** Throws ConfigError if the file on disk is not the one in the manifest, or if the set's package is not installed. */
export async function bundledPath(dataset: Pick<BundledDataset, 'files' | 'package'>, path: string): Promise<{ path: string; file: BundledFile }> {
  const file = dataset.files.find((f) => f.path === path);
  if (file === undefined) throw new ConfigError(`datasets/MANIFEST.json has no entry for ${path}.`);
  const absolute = join(datasetsFolder(dataset, path.split('/')[0]!), path);
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
