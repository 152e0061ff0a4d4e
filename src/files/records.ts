/**
 * Reads the rows of a file of the user: JSON Lines, JSON, CSV, TSV or Parquet, also packed (`.gz`, `.br`, `.zst`). What a row means is decided elsewhere.
 * A broken row is an error that names file and line; none is skipped. Integers beyond 2^53 become text and so keep their digits.
 */
import { isUtf8 } from 'node:buffer';
import { throwIfAborted } from '../core/abort.ts';
import { repeatedKey } from '../core/repeated-key.ts';
import { ConfigError } from '../core/errors.ts';
import { readExactJson } from '../core/read-json.ts';
import { isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { csvRows } from './csv.ts';
import { parquetRows } from './parquet.ts';
import { fileHead, userBytes, type UserFileOptions, userLines, userTextLines } from './user-lines.ts';
import { type Encoding, notUtf8 } from './user-text.ts';

/** One row. */
export interface FileRecord {
  readonly value: unknown;
  /** `Line 3 of rows.jsonl` or `Row 3 of rows.parquet`, for messages. */
  readonly place: string;
  /** Its line or row, from 1 up. */
  readonly number: number;
  /** The columns of a file of CSV, also those that the row leaves empty. */
  readonly header?: readonly string[];
  /** The line as it is in a file of JSON Lines; null in other files. */
  readonly text: string | null;
}

export interface ReadRecordsOptions extends UserFileOptions {
  /** Longest line of JSON Lines, in bytes. @default 64 MiB */
  readonly maxLineBytes?: number;
  /** Called with each line that is blank, not UTF-8 or not JSON, and the reason; the line is then left out. @default such a line is an error */
  readonly onBadLine?: (line: number, problem: string) => void;
  /** Blank lines anywhere do not count. @default false: one before another line suggests a damaged file, and is an error */
  readonly skipsBlankLines?: boolean;
  /** Most rows of Parquet to read; other files can be left at any row. @default all */
  readonly limit?: number;
}

/** How the rows lie in a file. */
interface FileFormat {
  readonly format: 'jsonl' | 'json' | 'csv' | 'parquet';
  readonly encoding: Encoding;
  readonly head: string;
}

/** The endings of files that rows are read from. */
export const RECORD_FILE = /\.(?:jsonl|ndjson|json|csv|tsv|parquet)(?:\.(?:gz|br|zst))?$/i;

/**
 * The rows of `path`, in order. In JSON Lines a blank line before another line is an error, because it suggests a damaged file. JSON is a list of rows, or an object
 * with one list of rows, or with a list for each column.
 */
export async function* readRecords(path: string, options: ReadRecordsOptions = {}): AsyncGenerator<FileRecord, void> {
  const { signal, limit } = options;
  const { format, head } = options.stream === undefined ? await formatOf(path, options) : { format: 'jsonl', head: '' };
  const row = (value: unknown, index: number): FileRecord => ({ value, place: `Row ${index + 1} of ${path}`, number: index + 1, text: null });
  const file = { ...(signal && { signal }) };
  if (format === 'parquet') {
    let index = 0;
    for await (const value of parquetRows(path, { ...(limit !== undefined && { limit }) })) yield row(value, index++);
  } else if (format === 'csv') {
    for await (const { fields, line, header } of csvRows(userTextLines(path, file), { path, head }))
      yield { value: fields, place: `Line ${line} of ${path}`, number: line, text: null, header };
  } else {
    const rows = format === 'json' ? await jsonRows(path, options) : null;
    if (rows === null) yield* jsonLines(path, options);
    else for (const [i, value] of rows.entries()) yield row(value, i);
  }
}

/** The format of a file, its encoding and its first characters. Rejects as `userBytes` does. */
export async function formatOf(path: string, options: UserFileOptions = {}): Promise<FileFormat> {
  const { text: head, encoding } = await fileHead(path, options);
  const name = path.replace(/\.(?:gz|br|zst)$/i, '');
  if (head.startsWith('PAR1') || /\.parquet$/i.test(name)) return { format: 'parquet', encoding, head };
  if (/\.(?:csv|tsv)$/i.test(name)) return { format: 'csv', encoding, head };
  const first = head.trimStart()[0];
  return { format: first === '[' || (first === '{' && /\.json$/i.test(name)) ? 'json' : 'jsonl', encoding, head };
}

/** Null for a file that is JSON Lines under another name. */
async function jsonRows(path: string, options: ReadRecordsOptions): Promise<readonly unknown[] | null> {
  const pieces: Buffer[] = [];
  for await (const piece of userBytes(path, options)) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  if (!isUtf8(bytes)) return null;
  const text = bytes.toString('utf8');
  try {
    const value = readExactJson(text);
    if (!Array.isArray(value)) return listedRows(value as Readonly<Record<string, unknown>>, path);
    return value.length === 0 || value.some(isObject) ? value : null;
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    if (isJson(text.trimStart().split('\n', 1)[0]!)) return null;
    throw new ConfigError(`${path} is not valid JSON: ${cause.message}. Write a list of objects, or one object per line.`, { cause });
  }
}

function isJson(text: string): boolean {
  try {
    readExactJson(text);
    return true;
  } catch {
    return false;
  }
}

/** The rows in an object: its one list of objects, or a list for each column. Any other object is itself the only row. */
function listedRows(value: Readonly<Record<string, unknown>>, path: string): readonly unknown[] {
  const lists = Object.entries(value).filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]));
  const ofRows = lists.filter(([, list]) => list.length > 0 && list.every(isObject));
  if (ofRows.length > 1)
    throw new ConfigError(`${path} has several lists of rows: ${ofRows.map(([name]) => name).join(', ')}. Write one of them into a file of its own.`);
  if (ofRows.length === 1) return ofRows[0]![1];
  if (lists.length < 2 || lists.length < Object.keys(value).length) return [value];
  const [name, first] = lists[0]!;
  const other = lists.find(([, list]) => list.length !== first.length);
  if (other !== undefined)
    throw new ConfigError(
      `${path} has ${first.length} ${name} but ${other[1].length} ${other[0]}. Give the lists equal lengths, or write a list of objects.`,
    );
  return first.map((_, i) => Object.fromEntries(lists.map(([column, list]) => [column, list[i]])));
}

async function* jsonLines(path: string, options: ReadRecordsOptions): AsyncGenerator<FileRecord, void> {
  const { onBadLine, skipsBlankLines = false, signal } = options;
  let blank = 0;
  for await (const { text, number } of userLines(path, options)) {
    const parsed = text === null ? { problem: 'it is not UTF-8', error: notUtf8(path, number) } : parseLine(text, path, number);
    if (parsed === null) {
      if (!skipsBlankLines) blank ||= number;
      continue;
    }
    if (blank > 0) {
      if (onBadLine === undefined) throw new ConfigError(`Line ${blank} of ${path} is blank. Remove it or restore its contents.`);
      for (; blank < number; blank++) onBadLine(blank, 'it is blank');
      blank = 0;
    }
    if ('value' in parsed) yield { value: parsed.value, place: `Line ${number} of ${path}`, number, text };
    else if (onBadLine === undefined) throw parsed.error;
    else onBadLine(number, parsed.problem);
    throwIfAborted(signal, `Stopped reading ${path}`);
  }
}

type ParsedLine = { readonly value: unknown } | { readonly problem: string; readonly error: ConfigError };

/** Null for a blank line. */
function parseLine(text: string, path: string, number: number): ParsedLine | null {
  if (text.trim() === '') return null;
  let value: unknown;
  try {
    value = readExactJson(text);
  } catch (cause) {
    const remedy = /[}\]](?=\s*\r)\s+[[{]/.test(text)
      ? ' Its lines end with CR alone: convert it, such as with tr "\\r" "\\n".'
      : number === 1 && !/^\s*[[{]/.test(text)
        ? ' If it is CSV, give it the ending .csv or .tsv.'
        : '';
    const message = `Line ${number} of ${path} is not valid JSON: ${(cause as SyntaxError).message}. Write one JSON object per line (docs/data.md).${remedy}`;
    return { problem: 'it is not JSON', error: new ConfigError(message, { cause }) };
  }
  const twice = isObject(value) ? repeatedKey(text) : null;
  if (twice === null) return { value };
  const problem = `has the key ${twice} twice`;
  return { problem: `it ${problem}`, error: new ConfigError(`Line ${number} of ${path} ${problem}. Keep the one that counts.`) };
}

/** The fields of a row. Throws ConfigError if it is not an object. */
export function objectOf({ value, place }: FileRecord): Readonly<Record<string, unknown>> {
  if (isObject(value)) return value;
  throw new ConfigError(`${place} is not an object, but ${kindOf(value)}. Write one JSON object per line.`);
}
