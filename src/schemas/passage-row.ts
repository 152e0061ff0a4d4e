/** Passages in corpora: the columns of Search-R1's, FlashRAG's and UltraRAG's corpora, of BEIR and of others; other names can be given. */
import { columnsIn } from './columns-in.ts';
import { isObject } from './is-object.ts';
import { kindOf } from './kind-of.ts';
import { onOneLine } from './on-one-line.ts';

export interface PassageRow {
  /** Null if the row has none; then its number serves as id, as in upstream's servers. */
  readonly id: string | null;
  /** Null if the row has none, or has it in its contents. */
  readonly title: string | null;
  readonly text: string;
}

/** The columns of a corpus whose names are not among the known ones. */
export interface PassageColumns {
  readonly text?: string;
  readonly title?: string;
  readonly id?: string;
}

export type ParsedPassage = { readonly ok: true; readonly row: PassageRow } | { readonly ok: false; readonly problem: string };

const IDS = ['id', '_id', 'docid', 'doc_id', 'pid'] as const;

/**
 * Reads `{"id", "contents"}` or `{"id", "title", "text"}`. A blank id or title counts as missing. Never throws; the problem is worded to follow the row's place.
 * @param header the columns of the file, of which a row may leave out those that are empty
 */
export function parsePassage(value: unknown, columns: PassageColumns = {}, header: readonly string[] = []): ParsedPassage {
  if (!isObject(value)) return { ok: false, problem: `is ${kindOf(value)}, not an object` };
  const idColumn = columns.id ?? IDS.find((name) => valueOf(value[name]) !== null) ?? 'id';
  const id = valueOf(value[idColumn]);
  if (id !== null && typeof id !== 'string' && typeof id !== 'number')
    return { ok: false, problem: `has the id ${kindOf(id)}; an id is a string or a number` };
  const missing = Object.values(columns).find((name: string) => value[name] === undefined && !header.includes(name));
  if (missing !== undefined) return { ok: false, problem: `has no column ${JSON.stringify(missing)}; it has ${columnsIn(value)}` };
  const { contents } = value;
  const own = columns.text === undefined ? contents : undefined;
  if (own !== undefined && own !== null && typeof own !== 'string') return { ok: false, problem: `has ${kindOf(own)} as "contents", not a string` };
  const text = own ?? value[columns.text ?? 'text'];
  // Contents hold their title.
  const title = typeof own === 'string' && columns.title === undefined ? null : valueOf(value[columns.title ?? 'title']);
  if (typeof text !== 'string' || (title !== null && typeof title !== 'string'))
    return { ok: false, problem: `has no "contents", nor "text" and perhaps "title", as strings; it has ${columnsIn(value)}` };
  return { ok: true, row: { id: id === null ? null : String(id), title, text } };
}

/** Null for a value that is missing or blank. */
function valueOf(value: unknown): unknown {
  return value === undefined || (typeof value === 'string' && value.trim() === '') ? null : value;
}

/** The contents of a passage: the title in quotes on the first line, as in wiki-18, the text below. */
export function passageContents({ title, text }: Pick<PassageRow, 'title' | 'text'>): string {
  return title === null ? text : `"${onOneLine(title)}"\n${text}`;
}
