import { isUtf8 } from 'node:buffer';
import { readExactJson } from '../../core/read-json.ts';
import { parsePassage, passageContents } from '../../schemas/passage-row.ts';

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
    value = readExactJson(line.toString('utf8'));
  } catch (error) {
    return { ok: false, problem: `is not JSON: ${(error as SyntaxError).message.replace(/ \(line 1 column \d+\)$/, '')}` };
  }
  const parsed = parsePassage(value);
  return parsed.ok ? { ok: true, row: { id: parsed.row.id, contents: passageContents(parsed.row) } } : parsed;
}
