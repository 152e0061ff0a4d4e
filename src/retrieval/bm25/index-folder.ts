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
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { endianness } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { crc32 } from 'node:zlib';
import { countText } from '../../core/count-text.ts';
import { ConfigError } from '../../core/errors.ts';
import { DOCUMENT_BYTES, openRegularFileSync, readRegularFileSync } from '../../files/regular-file.ts';
import { finishReplacement, putInPlace, REPLACING } from '../../files/replaced-folder.ts';
import { hidden, removeLeftOvers, temporaryPrefix } from '../../files/temporary-names.ts';
import { Bm25Index, type Bm25Parameters } from './bm25-index.ts';
import type { CorpusFacts } from './corpus-stream.ts';
import { ANALYZER } from './english-analyzer.ts';
import { INDEX_FORMAT, INDEX_VERSION, type IndexManifest, parseManifest, sealManifest } from './index-manifest.ts';
import type { PassageStore } from './passage-list.ts';
import { PassageFile } from './passage-store.ts';
import { Shard, type ShardArrays } from './shard.ts';
import { Vocabulary } from './vocabulary.ts';
import { systemText } from '../../files/system-text.ts';

const MANIFEST = 'manifest.json';
const PASSAGES = 'passages.jsonl';
const LINE_STARTS = 'passages.starts';
const LINE_CHECKSUMS = 'passages.crc32';
const TERMS = 'terms.txt';
const shardFile = (i: number): string => `shard-${i}.bin`;
/** Bytes per system call, which must be below 2 GiB. */
const BLOCK_BYTES = 2 ** 26;

type NumberArray = Uint8Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

export class IndexWriter {
  readonly #target: string;
  /** Unique to this process. The folder that is renamed is inside it, because that one has the user's default permissions. */
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
    finishReplacement(this.#target);
    if (existsSync(this.#target)) assertReplaceable(this.#target, options.overwrite);
    const parent = dirname(this.#target);
    if (!existsSync(parent)) throw new ConfigError(`The parent folder ${parent} of the index does not exist; create it, or choose another folder.`);
    removeLeftOvers(this.#target);
    this.#temporary = mkdtempSync(temporaryPrefix(hidden(this.#target)));
    this.#folder = join(this.#temporary, REPLACING);
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
    this.#write(LINE_CHECKSUMS, [facts.lineChecksums]);
    for (const [i, shard] of shards.entries()) this.#write(shardFile(i), arraysInOrder(shard.arrays));
    const manifest = sealManifest({
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
    });
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
    if (existsSync(this.#target)) assertReplaceable(this.#target, this.#overwrites);
    putInPlace(this.#temporary, this.#target);
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
  if (!existsSync(join(path, MANIFEST)) && !existsSync(join(path, PASSAGES)))
    throw new ConfigError(
      `${path} is a folder, but no index: it has neither ${MANIFEST} nor ${PASSAGES}. Name a corpus file, or make an index of it: vf-index <corpus.jsonl> -o <new folder>`,
    );
  const refuse = (problem: string, cause?: unknown): never => {
    throw unusable(path, problem, cause);
  };
  try {
    const manifest = indexManifest(path);
    const read = <T>(name: string, bytes: number, room: Room<T>) => readNumbers(join(path, name), { bytes, expected: manifest.files[name] }, room);
    const readOne = <T extends NumberArray>(name: string, bytes: number, make: () => T) => read(name, bytes, { make, inOrder: (array) => [array] });
    const termBytes = manifest.files[TERMS]?.bytes ?? 0;
    const terms = readOne(TERMS, termBytes, () => new Uint8Array(termBytes));
    const vocabulary = Vocabulary.of(terms.length === 0 ? [] : Buffer.from(terms.buffer).toString('utf8').split('\n'));
    if (vocabulary.terms.length !== manifest.terms) return refuse(`${TERMS} has ${vocabulary.terms.length} terms, not ${manifest.terms}`);
    const { rows, rows_with_terms: rowsWithTerms, tokens } = manifest;
    const lineStarts = readOne(LINE_STARTS, 8 * (rows + 1), () => new Float64Array(rows + 1));
    const lineChecksums = readOne(LINE_CHECKSUMS, 4 * rows, () => new Uint32Array(rows));
    const shards = manifest.shards.map((counts, i) => {
      return new Shard(read(shardFile(i), shardBytes(counts), { make: () => emptyArrays(counts), inOrder: arraysInOrder }));
    });
    const held = shards.reduce((sum, shard) => sum + shard.rows, 0);
    if (held !== rows) return refuse(`its shards hold ${countText(held)} of its ${countText(rows)} passages`);
    const index = new Bm25Index({ vocabulary, shards, rows, rowsWithTerms, tokens });
    return { index, manifest, passages: new PassageFile(join(path, PASSAGES), { lineStarts, lineChecksums }) };
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code, path: lacking = 'a file' } = cause as NodeJS.ErrnoException;
    return refuse(code === 'ENOENT' ? `it lacks ${basename(lacking)}` : systemText(cause), cause);
  }
}

/** Throws ConfigError for a manifest that is damaged or of another version, else the system's error. */
export function indexManifest(path: string): IndexManifest {
  const manifest = parseManifest(readRegularFileSync(join(path, MANIFEST), DOCUMENT_BYTES));
  if (typeof manifest === 'string') throw unusable(path, manifest);
  return manifest;
}

function unusable(path: string, problem: string, cause?: unknown): ConfigError {
  return new ConfigError(`${path} is not a usable index: ${problem}. Build it again: vf-index <corpus.jsonl> -o ${path} --force`, { cause });
}

/** True if the folder contains an index's files, complete or not. */
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

/** The bytes that `emptyArrays` allocates for the same counts. */
function shardBytes({ rows, terms, postings, frequencies }: IndexManifest['shards'][number]): number {
  return rows + 4 * (3 * terms + 2) + 4 * postings + frequencies;
}

/** The arrays that receive the numbers of a file. */
interface Room<T> {
  readonly make: () => T;
  readonly inOrder: (room: T) => readonly NumberArray[];
}

interface ExpectedFile {
  /** The size that follows from the counts of the manifest. */
  readonly bytes: number;
  readonly expected: IndexManifest['files'][string] | undefined;
}

/** Fills the room from the file, which must have exactly that size. Checks the file's size before it allocates, because a manifest can claim any size. */
function readNumbers<T>(path: string, { bytes, expected }: ExpectedFile, { make, inOrder }: Room<T>): T {
  const name = basename(path);
  const file = openRegularFileSync(path);
  try {
    const actual = fstatSync(file).size;
    if (expected?.bytes !== bytes || actual !== bytes) throw new Error(`${name} has ${actual} bytes, not ${bytes}`);
    let checksum = 0;
    const room = make();
    for (const array of inOrder(room)) {
      const block = Buffer.from(array.buffer);
      for (let at = 0; at < block.length;) {
        const count = readSync(file, block, at, Math.min(BLOCK_BYTES, block.length - at), null);
        if (count === 0) throw new Error(`${name} ended while it was read`);
        at += count;
      }
      checksum = crc32(block, checksum);
    }
    if (checksum !== expected.crc32) throw new Error(`${name} is damaged: its checksum differs`);
    return room;
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
