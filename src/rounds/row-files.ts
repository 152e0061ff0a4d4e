/** Files of rows, JSONL or Parquet, as the stages of a round read and write them. Columns that a stage does not know are kept. */
import { existsSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { readLines } from '../files/json-lines.ts';
import { readParquet } from '../files/parquet.ts';
import { isObject } from '../schemas/is-object.ts';
import { isDeeperThan, MOST_LEVELS, nestingProblem } from '../schemas/nesting.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface PlacedFields {
  readonly fields: Fields;
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
      rows.push({ fields: flatFields(row, place), place });
    }
    return rows;
  }
  for await (const { text, number } of readLines(path, { mustExist: true })) {
    if (text.trim() === '') continue;
    const place = `${path}:${number}`;
    rows.push({ fields: parsedObject(text, place), place });
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
  const rows = (await readObjects(path)).map(({ fields, place }) => ({ fields, place, id: idOf(fields, place) }));
  const first = new Map<string, string>();
  for (const { id, place } of rows) {
    const known = first.get(id);
    if (known !== undefined) throw new ConfigError(`${place} has the id ${JSON.stringify(id)}, as ${known} has; give each row its own`);
    first.set(id, place);
  }
  return rows;
}

/** The row with another value in its `extra_info`, which holds what is known about it. */
export function withExtra({ fields }: RoundRow, extra: Fields): Fields {
  const known = fields['extra_info'];
  return { ...fields, extra_info: { ...(isObject(known) ? known : {}), ...extra } };
}

export function rowLine(fields: Fields): string {
  return JSON.stringify(fields);
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

function idOf(fields: Fields, place: string): string {
  const id = fields['id'] ?? fields['uid'];
  if ((typeof id === 'string' && id !== '') || typeof id === 'number') return String(id);
  throw new ConfigError(`${place}: "id" must be the id of the row, text or a number, got ${shown(id)}`);
}

/** A value of a file, for a message. */
export function shown(value: unknown): string {
  if (isDeeperThan(value, MOST_LEVELS)) return `a list of more than ${MOST_LEVELS} levels`;
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 100);
}
