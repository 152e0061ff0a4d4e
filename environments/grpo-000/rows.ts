/** Training data in the forms of the specification: objects with a question and an answer, or two parallel lists; and the same as CSV. */
import { ConfigError } from 'vf-search';

export interface QueryWithTruth {
  readonly query: string;
  readonly ground_truth: string;
}

const LISTS = [
  ['queries', 'ground_truths'],
  ['questions', 'answers'],
] as const;

/**
 * Reads the contents of a JSON file: a list of `{query | question, answer}`, or `{queries, ground_truths}` or `{questions, answers}` of equal length. Throws
 * ConfigError for anything else, and for a row without both: upstream leaves such rows out without a message.
 */
export function rowsFromJson(json: unknown): QueryWithTruth[] {
  if (Array.isArray(json)) return filled(json.map((row, i) => rowOf(row, `Row ${i + 1}`)));
  const lists = typeof json === 'object' && json !== null ? LISTS.find(([name]) => name in json) : undefined;
  if (lists === undefined) throw new ConfigError('Expected a list of {"query", "answer"}, or {"queries": [...], "ground_truths": [...]}.');
  const [queries, truths] = lists.map((name) => (json as Readonly<Record<string, unknown>>)[name]);
  if (!Array.isArray(queries) || !Array.isArray(truths) || queries.length !== truths.length)
    throw new ConfigError(`"${lists[0]}" and "${lists[1]}" must be lists of equal length.`);
  return filled(queries.map((query, i) => rowOf({ query, answer: truths[i] as unknown }, `Row ${i + 1}`)));
}

/** Reads CSV with a header line that has `query` or `question`, and `answer` (or `ground_truth`). Throws ConfigError for another shape. */
export function rowsFromCsv(text: string): QueryWithTruth[] {
  const [header = [], ...records] = csvRecords(text);
  const column = (...names: string[]) => header.findIndex((name) => names.includes(name.trim().toLowerCase()));
  const [query, answer] = [column('query', 'question'), column('answer', 'ground_truth')];
  if (query === -1 || answer === -1) throw new ConfigError('The first line must name the columns query (or question) and answer.');
  return filled(records.map((record, i) => rowOf({ query: record[query], answer: record[answer] }, `Row ${i + 1}`)));
}

function rowOf(row: unknown, where: string): QueryWithTruth {
  const { query, question, answer } = (typeof row === 'object' && row !== null ? row : {}) as Readonly<Record<string, unknown>>;
  const asked = query ?? question;
  if (typeof asked !== 'string' || typeof answer !== 'string')
    throw new ConfigError(`${where} must have a "query" (or "question") and an "answer", both text. Fill them in or remove it.`);
  return { query: asked, ground_truth: answer };
}

function filled(rows: QueryWithTruth[]): QueryWithTruth[] {
  if (rows.length === 0) throw new ConfigError('It has no rows.');
  return rows;
}

/** RFC 4180: quoted fields may hold commas, line breaks and doubled quotes. Blank lines are left out. One pass. */
function csvRecords(text: string): string[][] {
  const records: string[][] = [];
  let record: string[] = [];
  let at = text.startsWith('\ufeff') ? 1 : 0;
  while (at < text.length) {
    let field: string;
    if (text[at] === '"') {
      const pieces: string[] = [];
      for (let from = at + 1; ;) {
        const quote = text.indexOf('"', from);
        if (quote === -1) throw new ConfigError(`A quoted field of record ${records.length + 1} is never closed.`);
        const isDoubled = text[quote + 1] === '"';
        pieces.push(text.slice(from, isDoubled ? quote + 1 : quote));
        at = from = quote + (isDoubled ? 2 : 1);
        if (!isDoubled) break;
      }
      field = pieces.join('');
    } else {
      const from = at;
      while (at < text.length && text[at] !== ',' && text[at] !== '\n') at++;
      field = text.slice(from, at).replace(/\r$/, '');
    }
    record.push(field);
    if (text[at] === '\r') at++;
    if (text[at] === ',') {
      at++;
      if (at < text.length) continue;
      record.push('');
    } else if (at < text.length && text[at] !== '\n') throw new ConfigError(`Record ${records.length + 1} has text behind a quoted field.`);
    else at++;
    if (record.length > 1 || record[0] !== '') records.push(record);
    record = [];
  }
  return records;
}
