/** Reads JSON Lines from disk, one line in memory at a time. An unreadable line is an error that names file and line; no line is skipped. */
import { isUtf8 } from 'node:buffer';
import { CancelledError, ConfigError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import { streamRegularFile } from '../files/regular-file.ts';

export interface JsonlLine {
  readonly value: unknown;
  /** 1-based. */
  readonly line: number;
}

export interface JsonlOptions {
  /** Longest line, in bytes, so that a file without line breaks cannot fill the memory. @default 64 MiB (chosen by us) */
  readonly maxLineBytes?: number;
  readonly signal?: AbortSignal;
}

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = '\ufeff';

/**
 * The lines of `path` in order. Accepts a byte order mark, CRLF and blank lines at the end; a blank line before another line is an error,
 * because it suggests a damaged file.
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
    if (blank > 0) throw new ConfigError(`Line ${blank} of ${path} is blank. Remove it or restore its contents.`);
    yield { value, line };
    if (signal?.aborted) throw new CancelledError(`Stopped reading ${path}`, { cause: signal.reason });
  }
}

/** The value of one line; undefined for a blank line. */
function parseLine(bytes: Buffer, path: string, line: number): unknown {
  if (!isUtf8(bytes)) throw new ConfigError(`Line ${line} of ${path} is not UTF-8. Convert the file to UTF-8.`);
  const decoded = bytes.toString('utf8');
  const text = line === 1 && decoded.startsWith(BYTE_ORDER_MARK) ? decoded.slice(1) : decoded;
  if (text.trim() === '') return undefined;
  try {
    return readJson(text);
  } catch (cause) {
    throw new ConfigError(`Line ${line} of ${path} is not valid JSON: ${(cause as SyntaxError).message}`, { cause });
  }
}

/** Lines as bytes, without line feeds. Whole lines are decoded, so that a chunk border cannot split a multi-byte character. */
async function* lineBytes(path: string, { maxLineBytes = 64 * 2 ** 20, signal }: JsonlOptions): AsyncGenerator<Buffer, void, undefined> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let line = 1;
  const tooLong = () => new ConfigError(`Line ${line} of ${path} is longer than ${maxLineBytes} bytes. Check that the file is JSON Lines.`);
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
  if (code === 'ENOENT') return new ConfigError(`The file ${path} does not exist`, { cause });
  if (code === 'EISDIR') return new ConfigError(`${path} is a folder, not a file`, { cause });
  if (code !== undefined) return new ConfigError(`Could not read ${path}: ${message}`, { cause });
  return cause;
}
