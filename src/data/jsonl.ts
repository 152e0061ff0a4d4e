/** JSON Lines from disk, one line in memory at a time. A line that cannot be read is an error that names file and line; none is ever skipped. */
import { isUtf8 } from 'node:buffer';
import { CancelledError, ConfigError } from '../core/errors.ts';
import { streamRegularFile } from '../files/regular-file.ts';

export interface JsonlLine {
  readonly value: unknown;
  /** 1-based. */
  readonly line: number;
}

export interface JsonlOptions {
  /** Bytes of one line at most, so that a file without line breaks cannot fill the memory. @default 64 MiB (chosen by us) */
  readonly maxLineBytes?: number;
  readonly signal?: AbortSignal;
}

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = '\ufeff';

/**
 * The lines of `path` in order. A byte order mark, CRLF and blank lines at the end are fine; a blank line before another line is an error,
 * because it is what a damaged file looks like.
 */
export async function* readJsonl(path: string, options: JsonlOptions = {}): AsyncGenerator<JsonlLine, void, undefined> {
  const { signal } = options;
  let line = 0;
  let blank = 0;
  for await (const bytes of lineBytes(path, options)) {
    line += 1;
    const value = parseLine(bytes, path, line);
    if (value === undefined) {
      blank ||= line;
      continue;
    }
    if (blank > 0) throw new ConfigError(`Expected JSON on every line of ${path}, line ${blank} is blank; remove it or restore what it held`);
    yield { value, line };
    if (signal?.aborted) throw new CancelledError(`Stopped reading ${path}`, { cause: signal.reason });
  }
}

/** The value of one line, or undefined for a blank one. */
function parseLine(bytes: Buffer, path: string, line: number): unknown {
  if (!isUtf8(bytes)) throw new ConfigError(`Expected UTF-8 in ${path}, line ${line} is something else; convert the file`);
  const decoded = bytes.toString('utf8');
  const text = line === 1 && decoded.startsWith(BYTE_ORDER_MARK) ? decoded.slice(1) : decoded;
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(`Expected one JSON value on line ${line} of ${path}: ${(cause as SyntaxError).message}`, { cause });
  }
}

/** Lines as bytes, line feeds left out. A multi-byte character never meets a chunk border, because whole lines are decoded. */
async function* lineBytes(path: string, { maxLineBytes = 64 * 2 ** 20, signal }: JsonlOptions): AsyncGenerator<Buffer, void, undefined> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let line = 1;
  const tooLong = () => new ConfigError(`Expected lines of at most ${maxLineBytes} bytes in ${path}, line ${line} is longer; is it JSON Lines?`);
  try {
    for await (const chunk of (await streamRegularFile(path, { pieceBytes: 2 ** 18, ...(signal && { signal }) })) as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
        const piece = chunk.subarray(start, end);
        if (pendingBytes + piece.length > maxLineBytes) throw tooLong();
        yield pendingBytes === 0 ? piece : Buffer.concat([...pending, piece]);
        [pending, pendingBytes, start] = [[], 0, end + 1];
        line += 1;
      }
      if (start === chunk.length) continue;
      pending.push(chunk.subarray(start));
      pendingBytes += chunk.length - start;
      if (pendingBytes > maxLineBytes) throw tooLong();
    }
  } catch (cause) {
    throw readError(cause, path, signal);
  }
  if (pendingBytes > 0) yield Buffer.concat(pending);
}

function readError(cause: unknown, path: string, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return new CancelledError(`Stopped reading ${path}`, { cause: signal.reason });
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new ConfigError(`Expected a file at ${path}, found none`, { cause });
  if (code === 'EISDIR') return new ConfigError(`Expected a file at ${path}, found a folder`, { cause });
  if (code !== undefined) return new ConfigError(`Could not read ${path}: ${message}`, { cause });
  return cause;
}
