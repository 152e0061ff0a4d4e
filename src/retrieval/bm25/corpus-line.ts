import { isUtf8 } from 'node:buffer';
import { readJson } from '../../core/read-json.ts';
import { isObject } from '../../schemas/is-object.ts';
import { kindOf } from '../../schemas/kind-of.ts';

export interface CorpusRow {
  /** Null if the line has none; then the row number serves as id, as in upstream's servers. */
  readonly id: string | null;
  readonly contents: string;
}

export type ParsedLine = { readonly ok: true; readonly row: CorpusRow } | { readonly ok: false; readonly problem: string };

/**
 * Parses one line of a corpus: `{"id", "contents"}` or `{"id", "title", "text"}`. The latter gives the contents `"title"`, line feed, text, with
 * quotes as in wiki-18.
 */
export function parseCorpusLine(line: Buffer): ParsedLine {
  if (!isUtf8(line)) return { ok: false, problem: 'is not UTF-8' };
  let value: unknown;
  try {
    value = readJson(line.toString('utf8'));
  } catch (error) {
    return { ok: false, problem: `is not JSON: ${(error as SyntaxError).message.replace(/ \(line 1 column \d+\)$/, '')}` };
  }
  if (!isObject(value)) return { ok: false, problem: `is ${kindOf(value)}, not an object` };
  const { id, contents, title, text } = value;
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number') {
    return { ok: false, problem: `has the id ${kindOf(id)}; an id is a string or a number` };
  }
  const name = id === undefined || id === null ? null : String(id);
  if (typeof contents === 'string') return { ok: true, row: { id: name, contents } };
  if (contents !== undefined) return { ok: false, problem: `has ${kindOf(contents)} as "contents", not a string` };
  if (typeof title === 'string' && typeof text === 'string') {
    return { ok: true, row: { id: name, contents: `"${title.replace(/\s*[\r\n]\s*/g, ' ')}"\n${text}` } };
  }
  return { ok: false, problem: 'has no "contents", nor "title" and "text", as strings' };
}
