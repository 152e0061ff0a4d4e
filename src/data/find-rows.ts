/** Finds the file of a data set by its name: bundled, on disk, or on the Hugging Face hub. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { RECORD_FILE } from '../files/records.ts';
import { streamRegularFile } from '../files/regular-file.ts';
import { bundledPath, questionSets, readBundledManifest } from './bundled.ts';
import { FLASHRAG_SOURCES, fetchHubSplit, parseHubName } from './hub.ts';

/** The origin of rows, as plain JSON from which the same rows can be loaded again. */
export interface RowsSource {
  readonly name: string;
  readonly kind: 'bundled' | 'hub' | 'file';
  /** The file as named by the user or the source, never an absolute path inside the package. */
  readonly file: string;
  /** Commit of the hub repository. */
  readonly revision?: string;
  /** SHA-256 of the whole file; absent for the hub, where the commit identifies it. */
  readonly sha256?: string;
  readonly license?: string;
  /** Rows taken from it. */
  readonly rows: number;
}

/** A source before its rows are counted. */
export interface FoundRows extends Omit<RowsSource, 'rows'> {
  /** The file on this machine. */
  readonly path: string;
}

export interface FindRowsOptions {
  /** @default that of Hugging Face's own tools, from `env` */
  readonly cacheDir?: string;
  /** @default none */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** On the hub, a file with the name of the data set is its training split, if there is no other: `limo.jsonl` of `GAIR/LIMO`. @default false */
  readonly takesOwnName?: boolean;
  /** The names that an unknown one is compared with in the message. @default sets of questions */
  readonly offers?: string;
  /** Splits of bundled sets that hold other data: they are neither offered nor found. @default none */
  readonly foreignSplits?: readonly string[];
  readonly signal?: AbortSignal;
}

/** Throws ConfigError if the name is unknown, or if the set has no such split. A missing file on disk is noticed when it is read. */
export async function findRows(name: string, split: string, options: FindRowsOptions): Promise<FoundRows> {
  const manifest = await readBundledManifest();
  const { datasets } = manifest;
  if (Object.hasOwn(datasets, name)) {
    const set = datasets[name]!;
    const splits = Object.keys(set.splits).filter((known) => options.foreignSplits?.includes(known) !== true);
    if (!splits.includes(split)) throw new ConfigError(`The data set ${name} has no split ${JSON.stringify(split)}. Choose ${splits.join(', ')}.`);
    const { path, file } = await bundledPath(set, set.splits[split]!);
    return { name, kind: 'bundled', file: file.path, sha256: file.sha256, license: set.license, path };
  }
  if (looksLikePath(name)) return { name: basename(name).replace(RECORD_FILE, ''), kind: 'file', file: name, path: name };
  const hub = parseHubName(name);
  if (hub === null) {
    const { offers = `${questionSets(manifest).join(', ')} (bundled), ${FLASHRAG_SOURCES.join(', ')} (from the hub)` } = options;
    throw new ConfigError(
      `The data set ${JSON.stringify(name)} does not exist. Choose ${offers}, org/name[/config] (any other on the hub) or the path of a file of rows (.jsonl, .json, .csv, .tsv or .parquet).`,
    );
  }
  const { env = {}, ...rest } = options;
  const { path, file, revision } = await fetchHubSplit(hub, split, { ...rest, env });
  return { name: hub.source, kind: 'hub', file: `${hub.repository}/${file}`, revision, path };
}

/** The source of `rows` rows that were read, with the SHA-256 of a file that has no other identity. */
export async function rowsSource({ path, ...source }: FoundRows, rows: number): Promise<RowsSource> {
  const sha256 = source.kind === 'file' ? await sha256Of(path) : source.sha256;
  return { ...source, rows, ...(sha256 !== undefined && { sha256 }) };
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of await streamRegularFile(path, { pieceBytes: 2 ** 18 })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

export function looksLikePath(name: string): boolean {
  return RECORD_FILE.test(name) || /^\.{0,2}\//.test(name) || name.includes('\\') || existsSync(name);
}
