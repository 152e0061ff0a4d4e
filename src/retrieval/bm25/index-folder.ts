/**
 * An index on disk: a folder with `manifest.json`, the unchanged corpus (`passages.jsonl`), and binary little-endian arrays. It is written under a
 * temporary name and renamed when it is complete, so that the folder never contains half an index.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { endianness } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { crc32 } from 'node:zlib';
import { ConfigError } from '../../core/errors.ts';
import { Bm25Index, type Bm25Parameters } from './bm25-index.ts';
import type { CorpusFacts } from './corpus-stream.ts';
import { ANALYZER } from './english-analyzer.ts';
import { INDEX_FORMAT, INDEX_VERSION, type IndexManifest, parseManifest } from './index-manifest.ts';
import { PassageFile, type PassageStore } from './passage-store.ts';
import { Shard, type ShardArrays } from './shard.ts';
import { Vocabulary } from './vocabulary.ts';

const MANIFEST = 'manifest.json';
const PASSAGES = 'passages.jsonl';
const LINE_STARTS = 'passages.starts';
const TERMS = 'terms.txt';
const shardFile = (i: number): string => `shard-${i}.bin`;
/** Bytes per system call, which must be below 2 GiB. */
const BLOCK_BYTES = 2 ** 26;

type NumberArray = Uint8Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

export class IndexWriter {
  readonly #target: string;
  /** Unique to this process. A folder in it is renamed, because that one has the user's default permissions. */
  readonly #temporary: string;
  readonly #folder: string;
  readonly #overwrites: boolean;
  readonly #passages: number;
  readonly #files: Record<string, { bytes: number; crc32: number }> = {};

  /** Throws ConfigError if `target` exists, unless `overwrite` is true and it is an index or an empty folder. */
  constructor(target: string, options: { readonly overwrite: boolean }) {
    assertLittleEndian();
    this.#target = resolve(target);
    this.#overwrites = options.overwrite;
    if (existsSync(this.#target)) assertReplaceable(this.#target, options.overwrite);
    const parent = dirname(this.#target);
    if (!existsSync(parent)) throw new ConfigError(`The parent folder ${parent} of the index does not exist.`);
    this.#temporary = mkdtempSync(join(parent, `.${basename(this.#target)}.tmp-`));
    this.#folder = join(this.#temporary, 'index');
    mkdirSync(this.#folder);
    this.#passages = openSync(join(this.#folder, PASSAGES), 'wx');
  }

  /** Appends bytes of the corpus unchanged. */
  appendCorpus(bytes: Buffer): void {
    writeBytes(this.#passages, bytes);
  }

  /** Writes the index and renames the folder. */
  finish(index: Bm25Index, facts: CorpusFacts, { name, k1, b }: Bm25Parameters & { readonly name: string }): IndexManifest {
    fsyncSync(this.#passages);
    closeSync(this.#passages);
    const { vocabulary, shards, rows, rowsWithTerms, tokens } = index.corpus;
    this.#write(TERMS, [Buffer.from(vocabulary.terms.join('\n'))]);
    this.#write(LINE_STARTS, [facts.lineStarts]);
    for (const [i, shard] of shards.entries()) this.#write(shardFile(i), arraysInOrder(shard.arrays));
    const manifest: IndexManifest = {
      format: INDEX_FORMAT,
      version: INDEX_VERSION,
      analyzer: ANALYZER,
      corpus: { name, sha256: facts.sha256, bytes: facts.bytes },
      rows,
      rows_with_terms: rowsWithTerms,
      tokens,
      terms: vocabulary.terms.length,
      k1,
      b,
      shards: shards.map(({ arrays, rows: shardRows, terms }) => {
        return { rows: shardRows, terms, postings: arrays.postings.length, frequencies: arrays.frequencies.length };
      }),
      files: this.#files,
    };
    writeFileSync(join(this.#folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx', flush: true });
    this.#rename();
    return manifest;
  }

  /** Removes everything written; the target stays unchanged. */
  discard(): void {
    try {
      closeSync(this.#passages);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBADF') throw error;
    }
    rmSync(this.#temporary, { recursive: true, force: true });
  }

  #write(name: string, arrays: readonly NumberArray[]): void {
    const file = openSync(join(this.#folder, name), 'wx');
    let bytes = 0;
    let checksum = 0;
    for (const array of arrays) {
      const block = Buffer.from(array.buffer, array.byteOffset, array.byteLength);
      writeBytes(file, block);
      bytes += block.length;
      checksum = crc32(block, checksum);
    }
    fsyncSync(file);
    closeSync(file);
    this.#files[name] = { bytes, crc32: checksum };
  }

  #rename(): void {
    if (existsSync(this.#target)) {
      assertReplaceable(this.#target, this.#overwrites);
      renameSync(this.#target, join(this.#temporary, 'old'));
    }
    renameSync(this.#folder, this.#target);
    rmSync(this.#temporary, { recursive: true, force: true });
  }
}

export interface OpenedIndex {
  readonly index: Bm25Index;
  readonly passages: PassageStore;
  readonly manifest: IndexManifest;
}

/** Reads an index folder. Throws ConfigError if it is not one, is damaged, or was built with other rules. */
export function readIndexFolder(path: string): OpenedIndex {
  assertLittleEndian();
  const refuse = (problem: string, cause?: unknown): never => {
    throw new ConfigError(`${path} is not a usable index: ${problem}. Build it again: vf-index <corpus.jsonl> -o ${path} --force`, {
      cause,
    });
  };
  try {
    const manifest = parseManifest(readFileSync(join(path, MANIFEST), 'utf8'));
    if (typeof manifest === 'string') return refuse(manifest);
    const terms = readArray(path, TERMS, manifest, [new Uint8Array(manifest.files[TERMS]?.bytes ?? 0)])[0];
    const vocabulary = Vocabulary.of(terms!.length === 0 ? [] : Buffer.from(terms!.buffer).toString('utf8').split('\n'));
    if (vocabulary.terms.length !== manifest.terms) return refuse(`${TERMS} has ${vocabulary.terms.length} terms, not ${manifest.terms}`);
    const lineStarts = new Float64Array(manifest.rows + 1);
    readArray(path, LINE_STARTS, manifest, [lineStarts]);
    const shards = manifest.shards.map((counts, i) => {
      const arrays = emptyArrays(counts);
      readArray(path, shardFile(i), manifest, arraysInOrder(arrays));
      return new Shard(arrays);
    });
    const { rows, rows_with_terms: rowsWithTerms, tokens } = manifest;
    const index = new Bm25Index({ vocabulary, shards, rows, rowsWithTerms, tokens });
    return { index, manifest, passages: new PassageFile(join(path, PASSAGES), lineStarts) };
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code, message } = cause as NodeJS.ErrnoException;
    return refuse(code === 'ENOENT' ? `it lacks ${basename((cause as NodeJS.ErrnoException).path ?? 'a file')}` : message, cause);
  }
}

/** Whether the folder contains an index's files, complete or not. */
export function isIndexFolder(path: string): boolean {
  return existsSync(join(path, MANIFEST)) && existsSync(join(path, PASSAGES));
}

function arraysInOrder(arrays: ShardArrays): readonly NumberArray[] {
  const { lengths, offsets, middles, frequencyOffsets, postings, frequencies } = arrays;
  return [lengths, offsets, middles, frequencyOffsets, postings, frequencies] as NumberArray[];
}

function emptyArrays({ rows, terms, postings, frequencies }: IndexManifest['shards'][number]): ShardArrays {
  return {
    lengths: new Uint8Array(rows),
    offsets: new Uint32Array(terms + 1),
    middles: new Uint32Array(terms),
    frequencyOffsets: new Uint32Array(terms + 1),
    postings: new Int32Array(postings),
    frequencies: new Uint8Array(frequencies),
  };
}

/** Fills the arrays from the file, which must contain exactly them. */
function readArray(path: string, name: string, manifest: IndexManifest, arrays: readonly NumberArray[]): readonly NumberArray[] {
  const expected = manifest.files[name];
  const size = arrays.reduce((sum, array) => sum + array.byteLength, 0);
  const file = openSync(join(path, name), 'r');
  try {
    const actual = fstatSync(file).size;
    if (expected?.bytes !== size || actual !== size) throw new Error(`${name} has ${actual} bytes, not ${size}`);
    let checksum = 0;
    for (const array of arrays) {
      const block = Buffer.from(array.buffer);
      for (let at = 0; at < block.length;) {
        const count = readSync(file, block, at, Math.min(BLOCK_BYTES, block.length - at), null);
        if (count === 0) throw new Error(`${name} ended while it was read`);
        at += count;
      }
      checksum = crc32(block, checksum);
    }
    if (checksum !== expected.crc32) throw new Error(`${name} is damaged: its checksum differs`);
    return arrays;
  } finally {
    closeSync(file);
  }
}

function writeBytes(file: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at, Math.min(BLOCK_BYTES, bytes.length - at));
}

function assertReplaceable(target: string, overwrite: boolean): void {
  if (!overwrite) throw new ConfigError(`${target} already exists. Choose another folder, or replace it with --force.`);
  let entries: readonly string[];
  try {
    entries = readdirSync(target);
  } catch (cause) {
    throw new ConfigError(`${target} is not a folder. Remove it, or choose another folder.`, { cause });
  }
  if (entries.length === 0 || isIndexFolder(target)) return;
  throw new ConfigError(`${target} is not an index of vf-index, so it is not replaced. Remove it, or choose another folder.`);
}

function assertLittleEndian(): void {
  if (endianness() !== 'LE') throw new ConfigError('Index files need a little-endian machine.');
}
