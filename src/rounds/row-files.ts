/**
 * Files of rows, JSONL or Parquet, that the stages of a round read and write. Columns that a stage does not know are kept: the line of a row that is passed on stays
 * unchanged, and if a column changes, the numbers of the others keep their digits.
 */
import { existsSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import { readLines } from '../files/json-lines.ts';
import { readParquet } from '../files/parquet.ts';
import { rawJSON } from '../schemas/float-json.ts';
import { isObject } from '../schemas/is-object.ts';
import { isDeeperThan, MOST_LEVELS, nestingProblem } from '../schemas/nesting.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface PlacedFields {
  readonly fields: Fields;
  /** The row as it is in its file; for a Parquet file, its JSON. */
  readonly line: string;
  /** `rows.jsonl:12`, for messages. */
  readonly place: string;
}

export interface RoundRow extends PlacedFields {
  readonly id: string;
}

/** The objects of a file, in order. Throws ConfigError for a line that is no object. */
export async function readObjects(path: string): Promise<PlacedFields[]> {
  const rows: PlacedFields[] = [];
  if (isParquet(path)) {
    for (const [i, row] of (await readParquet(path)).entries()) {
      const place = `${path}, row ${i + 1}`;
      rows.push({ fields: flatFields(row, place), line: JSON.stringify(row), place });
    }
    return rows;
  }
  for await (const { text, number } of readLines(path, { remedy: 'name rows in JSONL or Parquet' })) {
    if (text.trim() === '') continue;
    const place = `${path}:${number}`;
    rows.push({ fields: parsedObject(text, place), line: text, place });
  }
  return rows;
}

/** The number of rows in a JSONL or Parquet file. Blank lines do not count; a missing file counts as 0. */
export async function countRows(path: string): Promise<number> {
  if (!existsSync(path)) return 0;
  if (isParquet(path)) return (await readParquet(path)).length;
  let rows = 0;
  for await (const { text } of readLines(path)) if (text.trim() !== '') rows += 1;
  return rows;
}

/** Rows with an `id`, or DDAI's `uid`, each id once. Throws ConfigError that names row and key. */
export async function readRows(path: string): Promise<RoundRow[]> {
  const rows = (await readObjects(path)).map((row) => ({ ...row, id: idOf(row) }));
  const first = new Map<string, string>();
  for (const { id, place } of rows) {
    const known = first.get(id);
    if (known !== undefined) throw new ConfigError(`${place} has the id ${JSON.stringify(id)}, as ${known} has; give each row its own`);
    first.set(id, place);
  }
  return rows;
}

/** The rows whose ids a trace names. Throws ConfigError as `readRows` does, and for an id that the run cannot have kept. */
export async function readPlayedRows(path: string): Promise<RoundRow[]> {
  const rows = await readRows(path);
  const rounded = rows.find(({ fields }) => losesDigits(fields[idKey(fields)]));
  if (rounded === undefined) return rows;
  const { place, fields, id } = rounded;
  throw new ConfigError(`${place}: "${idKey(fields)}" is the integer ${id}, which is beyond 2^53, so a run rounds it; store it as text`);
}

/** The line of a row with further values in `extra_info`, which holds the known facts about the row. */
export function lineWithExtra(row: RoundRow, extra: Fields): string {
  const hasExtra = isObject(row.fields['extra_info']);
  return changedLine(row, (fields) => {
    const known = hasExtra ? (fields['extra_info'] as Fields) : {};
    return { ...fields, extra_info: { ...known, ...extra } };
  });
}

/** The line of a row with other columns. Numbers that `change` leaves alone keep their digits. */
export function changedLine({ line }: Pick<PlacedFields, 'line'>, change: (fields: Fields) => Fields): string {
  return JSON.stringify(change(exactFields(line)));
}

/** The columns, ready to be written again: a number that JavaScript would write in another way, such as 1.0 or 12345678901234567890, is raw JSON. */
export function exactFields(line: string): Fields {
  const asWritten = (_key: string, value: unknown, { source }: { readonly source?: string }): unknown =>
    typeof value === 'number' && source !== undefined && source !== String(value) ? rawJSON(source) : value;
  return readJson(line, asWritten) as Fields;
}

function isParquet(path: string): boolean {
  return /\.parquet$/i.test(path);
}

function parsedObject(text: string, place: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(`${place} is not JSON; give one JSON object per line`, { cause });
  }
  if (!isObject(value)) throw new ConfigError(`${place} is ${shown(value)}; give one JSON object per line`);
  return flatFields(value, place);
}

function flatFields(fields: Fields, place: string): Fields {
  const problem = nestingProblem(fields);
  if (problem !== null) throw new ConfigError(`${place}: ${problem}`);
  return fields;
}

function idKey(fields: Fields): 'id' | 'uid' {
  return (fields['id'] ?? null) === null ? 'uid' : 'id';
}

function idOf({ fields, line, place }: PlacedFields): string {
  const key = idKey(fields);
  const id = fields[key];
  if (losesDigits(id)) return JSON.stringify(exactFields(line)[key]);
  if ((typeof id === 'string' && id !== '') || typeof id === 'number') return String(id);
  throw new ConfigError(`${place}: "id" must be the id of the row, text or a number, got ${shown(id)}; give every row its own`);
}

/** Tells whether two such integers of a file can be the same number here. */
function losesDigits(value: unknown): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}

/** A value of a file, for a message. */
export function shown(value: unknown): string {
  if (isDeeperThan(value, MOST_LEVELS)) return `a list of more than ${MOST_LEVELS} levels`;
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 100);
}
