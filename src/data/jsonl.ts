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
  /** Called with each line that is blank, not UTF-8 or not JSON, and the reason; the line is then left out. @default such a line is an error */
  readonly onBadLine?: (line: number, problem: string) => void;
  readonly signal?: AbortSignal;
}

const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = '\ufeff';

/**
 * The lines of `path` in order. Accepts a byte order mark, CRLF and blank lines at the end; a blank line before another line is an error,
 * because it suggests a damaged file.
 */
export async function* readJsonl(path: string, options: JsonlOptions = {}): AsyncGenerator<JsonlLine, void, undefined> {
  const { onBadLine, signal } = options;
  let line = 0;
  let blank = 0;
  for await (const bytes of lineBytes(path, options)) {
    line += 1;
    const parsed = parseLine(bytes, line);
    if (parsed === null) {
      blank ||= line;
      continue;
    }
    if (blank > 0) {
      if (onBadLine === undefined) throw new ConfigError(`Line ${blank} of ${path} is blank. Remove it or restore its contents.`);
      for (; blank < line; blank++) onBadLine(blank, 'it is blank');
      blank = 0;
    }
    if ('value' in parsed) yield { value: parsed.value, line };
    else if (onBadLine === undefined) throw new ConfigError(`Line ${line} of ${path} ${parsed.problem}`, { cause: parsed.cause });
    else onBadLine(line, parsed.cause === undefined ? 'it is not UTF-8' : 'it is not JSON');
    if (signal?.aborted) throw new CancelledError(`Stopped reading ${path}`, { cause: signal.reason });
  }
}

type ParsedLine = { readonly value: unknown } | { readonly problem: string; readonly cause?: unknown };

/** Null for a blank line. */
function parseLine(bytes: Buffer, line: number): ParsedLine | null {
  if (!isUtf8(bytes)) return { problem: 'is not UTF-8. Convert the file to UTF-8.' };
  const decoded = bytes.toString('utf8');
  const text = line === 1 && decoded.startsWith(BYTE_ORDER_MARK) ? decoded.slice(1) : decoded;
  if (text.trim() === '') return null;
  try {
    return { value: readJson(text) };
  } catch (cause) {
    return { problem: `is not valid JSON: ${(cause as SyntaxError).message}. Write one JSON object per line (docs/data.md).`, cause };
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
  if (code === 'ENOENT') return new ConfigError(`The file ${path} does not exist; correct its path`, { cause });
  if (code === 'EISDIR') return new ConfigError(`${path} is a folder, not a file`, { cause });
  if (code !== undefined) return new ConfigError(`Could not read ${path}: ${message}`, { cause });
  return cause;
}
