/** Reads a corpus (JSON Lines) in one pass: its passages, the offset of each line, and the checksum. */
import { createHash } from 'node:crypto';
import { addAbortSignal, type Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { throwIfAborted } from '../../core/abort.ts';
import { ConfigError, VfError } from '../../core/errors.ts';
import { streamRegularFile } from '../../files/regular-file.ts';
import { parseCorpusLine } from './corpus-line.ts';

/** A file with longer lines is probably not JSON Lines. */
const MAX_LINE_BYTES = 2 ** 28;
const CHUNK_BYTES = 2 ** 20;
const LINE_FEED = 10;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const GZIP = Buffer.from([0x1f, 0x8b]);

export interface CorpusProgress {
  readonly rows: number;
  readonly bytes: number;
}

export interface CorpusStreamOptions {
  /** Name of the corpus in messages. */
  readonly name: string;
  readonly onPassage: (contents: string) => void;
  /** Called with every byte, in order. */
  readonly onChunk?: (chunk: Buffer) => void;
  readonly onProgress?: (progress: CorpusProgress) => void;
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
  const lines = new CorpusLines(options.name, options.onPassage);
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    // Lets the signal end the wait for a silent stream.
    if (options.signal) addAbortSignal(options.signal, stream);
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (bytes === 0 && chunk.subarray(0, 2).equals(GZIP)) {
        throw new ConfigError(`${options.name} is gzip, not JSON Lines. Unpack it first: gunzip -c ${options.name} | vf-index - -o <index>`);
      }
      hash.update(chunk);
      options.onChunk?.(chunk);
      bytes += chunk.length;
      lines.read(chunk);
      options.onProgress?.({ rows: lines.rows, bytes });
    }
  } catch (cause) {
    throwIfAborted(options.signal, `Stopped reading ${options.name}`);
    if (cause instanceof VfError || (cause as NodeJS.ErrnoException).syscall !== 'read') throw cause;
    throw new ConfigError(`Could not read ${options.name}: ${(cause as Error).message}`, { cause });
  }
  lines.end();
  if (lines.rows === 0) throw new ConfigError(`${options.name} contains no passages. A corpus has one {"id", "contents"} per line.`);
  return { rows: lines.rows, bytes, sha256: hash.digest('hex'), lineStarts: lines.starts(bytes), lineChecksums: lines.checksums() };
}

/** The bytes of a corpus file. Read the stream at once, because an error of an unread stream ends the process. */
export function openCorpus(path: string): Promise<Readable> {
  return streamRegularFile(path, { pieceBytes: CHUNK_BYTES });
}

/** SHA-256 of a corpus file, in hex. */
export async function corpusChecksum(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of (await openCorpus(path)) as AsyncIterable<Buffer>) {
    throwIfAborted(signal, `Stopped reading ${path}`);
    hash.update(chunk);
  }
  return hash.digest('hex');
}

/** Splits chunks into lines and passages. */
class CorpusLines {
  rows = 0;
  readonly #name: string;
  readonly #onPassage: (contents: string) => void;
  /** Pieces of the unfinished line. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #lineStart = 0;
  #line = 0;
  #blankLine = 0;
  #starts = new Float64Array(1024);
  #checksums = new Uint32Array(1024);

  constructor(name: string, onPassage: (contents: string) => void) {
    this.#name = name;
    this.#onPassage = onPassage;
  }

  read(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      this.#take(chunk.subarray(start, end));
      start = end + 1;
      this.#lineStart += 1;
    }
    if (start === chunk.length) return;
    this.#pending.push(chunk.subarray(start));
    this.#pendingBytes += chunk.length - start;
    if (this.#pendingBytes > MAX_LINE_BYTES) {
      throw new ConfigError(`Line ${this.#line + 1} of ${this.#name} is longer than ${MAX_LINE_BYTES} bytes. Check that the file is JSON Lines.`);
    }
  }

  /** The last line may lack its line feed. */
  end(): void {
    if (this.#pendingBytes > 0) this.#take(Buffer.alloc(0));
  }

  starts(end: number): Float64Array<ArrayBuffer> {
    const starts = this.#starts.slice(0, this.rows + 1);
    starts[this.rows] = end;
    return starts;
  }

  checksums(): Uint32Array<ArrayBuffer> {
    return this.#checksums.slice(0, this.rows);
  }

  #take(lastPiece: Buffer): void {
    let line = this.#pendingBytes === 0 ? lastPiece : Buffer.concat([...this.#pending, lastPiece]);
    const start = this.#lineStart;
    this.#lineStart += line.length;
    this.#line++;
    this.#pending = [];
    this.#pendingBytes = 0;
    const skipped = this.#line === 1 && line.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0;
    line = line.subarray(skipped);
    if (isBlank(line)) {
      this.#blankLine ||= this.#line;
      return;
    }
    if (this.#blankLine > 0) throw new ConfigError(`${this.#name}, line ${this.#blankLine} is blank; every line must be a passage`);
    const parsed = parseCorpusLine(line);
    if (!parsed.ok) throw new ConfigError(`${this.#name}, line ${this.#line} ${parsed.problem}; every line must be {"id", "contents"}`);
    this.#onPassage(parsed.row.contents);
    if (this.rows + 1 === this.#starts.length) {
      const grown = new Float64Array(2 * this.#starts.length);
      grown.set(this.#starts);
      this.#starts = grown;
      const grownChecksums = new Uint32Array(grown.length);
      grownChecksums.set(this.#checksums);
      this.#checksums = grownChecksums;
    }
    this.#checksums[this.rows] = crc32(line);
    this.#starts[this.rows++] = start + skipped;
  }
}

function isBlank(line: Buffer): boolean {
  return line.length < 1024 && line.toString('latin1').trim() === '';
}
