/**
 * Files of rows that the stages of a round read and write. Columns that a stage does not know are kept: the line of a row that is passed on stays
 * unchanged, and if a column changes, the numbers of the others keep their digits.
 */
import { existsSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import { objectOf, readRecords } from '../files/records.ts';
import { rawJSON } from '../schemas/float-json.ts';
import { isObject } from '../schemas/is-object.ts';
import { isDeeperThan, MOST_LEVELS, nestingProblem } from '../schemas/nesting.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface PlacedFields {
  readonly fields: Fields;
  /** The row as it is in a file of JSON Lines; for any other file, its JSON. */
  readonly line: string;
  /** `rows.jsonl:12`, for messages. */
  readonly place: string;
}

export interface RoundRow extends PlacedFields {
  readonly id: string;
}

/** The objects of a file, in order. Throws ConfigError for a row that is not an object. */
export async function readObjects(path: string): Promise<PlacedFields[]> {
  const rows: PlacedFields[] = [];
  for await (const record of readRecords(path, { remedy: 'name a file of rows', skipsBlankLines: true })) {
    const { text, value, number } = record;
    const place = text === null ? `${path}, row ${number}` : `${path}:${number}`;
    const fields = objectOf(record);
    const problem = nestingProblem(fields);
    if (problem !== null) throw new ConfigError(`${place}: ${problem}`);
    rows.push({ fields, line: text ?? JSON.stringify(value), place });
  }
  return rows;
}

/** The number of rows in a file. Blank lines do not count; a missing file counts as 0. */
export async function countRows(path: string): Promise<number> {
  if (!existsSync(path)) return 0;
  let rows = 0;
  for await (const _ of readRecords(path, { skipsBlankLines: true })) rows += 1;
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

function idKey(fields: Fields): 'id' | 'uid' {
  return (fields['id'] ?? null) === null ? 'uid' : 'id';
}

function idOf({ fields, place }: PlacedFields): string {
  const id = fields[idKey(fields)];
  if ((typeof id === 'string' && id !== '') || typeof id === 'number') return String(id);
  throw new ConfigError(`${place}: "id" must be the id of the row, text or a number, got ${shown(id)}; give every row its own`);
}

/** A value of a file, for a message. */
export function shown(value: unknown): string {
  if (isDeeperThan(value, MOST_LEVELS)) return `a list of more than ${MOST_LEVELS} levels`;
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 100);
}
