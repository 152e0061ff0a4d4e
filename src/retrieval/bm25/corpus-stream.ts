/** Reads a corpus (JSON Lines) in one pass: its passages, the offset of each line, and the checksum. */
import { createHash } from 'node:crypto';
import { addAbortSignal, type Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { throwIfAborted } from '../../core/abort.ts';
import { ConfigError, VfError } from '../../core/errors.ts';
import { isDamage } from '../../files/packed-file.ts';
import type { CorpusRow } from './corpus-line.ts';
import { CorpusLines } from './corpus-lines.ts';
import type { OpenedCorpus } from './open-corpus.ts';
import { systemText } from '../../files/system-text.ts';

const GZIP = Buffer.from([0x1f, 0x8b]);

export interface CorpusProgress {
  readonly rows: number;
  readonly bytes: number;
}

export interface CorpusStreamOptions {
  /** Name of the corpus in messages. */
  readonly name: string;
  readonly onPassage: (passage: CorpusRow) => void;
  /** Called with every byte, in order. */
  readonly onChunk?: (chunk: Buffer) => void;
  readonly onProgress?: (progress: CorpusProgress) => void;
  /** Called with a line about passages whose ids are not their own. */
  readonly onNotice?: (line: string) => void;
  readonly signal?: AbortSignal;
}

export interface CorpusFacts {
  readonly rows: number;
  readonly bytes: number;
  /** Checksum of the bytes, in hex. */
  readonly sha256: string;
  /** Offset of each row's line, then the end of the corpus. [rows + 1] */
  readonly lineStarts: Float64Array<ArrayBuffer>;
  /** CRC-32 of each row's line, without its line feed. [rows] */
  readonly lineChecksums: Uint32Array<ArrayBuffer>;
}

/** Throws ConfigError, which names the line, if the corpus cannot be read, and CancelledError if the signal aborts. */
export async function readCorpus(stream: Readable, options: CorpusStreamOptions): Promise<CorpusFacts> {
  const index = new LineIndex();
  const lines = new CorpusLines(options.name, (row, line, start) => {
    index.add(line, start);
    options.onPassage(row);
  });
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of corpusChunks(stream, options)) {
    hash.update(chunk);
    options.onChunk?.(chunk);
    bytes += chunk.length;
    lines.read(chunk);
    options.onProgress?.({ rows: lines.rows, bytes });
  }
  lines.end();
  if (lines.ids.notice !== null) options.onNotice?.(lines.ids.notice);
  return { rows: lines.rows, bytes, sha256: hash.digest('hex'), lineStarts: index.starts(bytes), lineChecksums: index.checksums() };
}

export interface CorpusPiece {
  /** The passages of a piece of the corpus, in order; without an id if the line has none. */
  readonly rows: readonly CorpusRow[];
  /** Bytes so far. */
  readonly bytes: number;
  /** Checksum of the whole corpus, in hex, with the last piece; else null. */
  readonly sha256: string | null;
}

/** The passages piece by piece, so that a corpus of any size needs no memory. Throws as `readCorpus` does. */
export async function* streamCorpus(
  stream: Readable,
  options: { readonly name: string; readonly signal?: AbortSignal },
): AsyncGenerator<CorpusPiece, void> {
  let rows: CorpusRow[] = [];
  const lines = new CorpusLines(options.name, (row) => rows.push(row));
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of corpusChunks(stream, options)) {
    hash.update(chunk);
    bytes += chunk.length;
    lines.read(chunk);
    yield { rows, bytes, sha256: null };
    rows = [];
  }
  lines.end();
  yield { rows, bytes, sha256: hash.digest('hex') };
}

async function* corpusChunks(
  stream: Readable,
  { name, signal }: { readonly name: string; readonly signal?: AbortSignal },
): AsyncGenerator<Buffer, void> {
  let isFirst = true;
  // Lets the signal end the wait for a silent stream.
  if (signal) addAbortSignal(signal, stream);
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (isFirst && chunk.subarray(0, 2).equals(GZIP))
        throw new ConfigError(`${name} is gzip, not JSON Lines. Unpack it first: gunzip -c ${name} | vf-index - -o <index>`);
      isFirst = false;
      yield chunk;
    }
  } catch (cause) {
    throwIfAborted(signal, `Stopped reading ${name}`);
    if (isDamage(cause)) throw new ConfigError(`Could not unpack ${name}: ${(cause as Error).message}. The file is damaged: restore it.`, { cause });
    if (cause instanceof VfError || (cause as NodeJS.ErrnoException).syscall !== 'read') throw cause;
    throw new ConfigError(`Could not read ${name}: ${systemText(cause)}`, { cause });
  }
}

/** SHA-256 of the bytes of a corpus, in hex. */
export async function corpusChecksum({ stream }: OpenedCorpus, options: { readonly name: string; readonly signal?: AbortSignal }): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of corpusChunks(stream, options)) hash.update(chunk);
  return hash.digest('hex');
}

/** The first byte of each row's line, and the line's checksum. */
class LineIndex {
  #rows = 0;
  #starts = new Float64Array(1024);
  #checksums = new Uint32Array(1024);

  add(line: Buffer, start: number): void {
    if (this.#rows + 1 === this.#starts.length) {
      const grown = new Float64Array(2 * this.#starts.length);
      grown.set(this.#starts);
      this.#starts = grown;
      const grownChecksums = new Uint32Array(grown.length);
      grownChecksums.set(this.#checksums);
      this.#checksums = grownChecksums;
    }
    this.#checksums[this.#rows] = crc32(line);
    this.#starts[this.#rows++] = start;
  }

  starts(end: number): Float64Array<ArrayBuffer> {
    const starts = this.#starts.slice(0, this.#rows + 1);
    starts[this.#rows] = end;
    return starts;
  }

  checksums(): Uint32Array<ArrayBuffer> {
    return this.#checksums.slice(0, this.#rows);
  }
}
