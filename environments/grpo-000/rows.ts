/** Training data in the forms of the specification: objects with a question and an answer, or two parallel lists. */
import { ConfigError } from 'vf-search';
import { readGoldenAnswers } from 'vf-search/environment-kit';

export interface QueryWithTruth {
  readonly query: string;
  readonly ground_truth: string;
}

const LISTS = [
  ['queries', 'ground_truths'],
  ['questions', 'answers'],
] as const;

/**
 * Reads the contents of a JSON file: a list of `{query | question, answer | ground_truth}`, or `{queries, ground_truths}` or `{questions, answers}` of equal length. Throws
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

function rowOf(row: unknown, where: string): QueryWithTruth {
  const {
    query,
    question,
    ground_truth,
    answer = ground_truth,
  } = (typeof row === 'object' && row !== null ? row : {}) as Readonly<Record<string, unknown>>;
  const asked = query ?? question;
  if (typeof asked !== 'string' || (typeof answer !== 'string' && typeof answer !== 'number'))
    throw new ConfigError(`${where} must have a "query" (or "question") and an "answer" (or "ground_truth"), both text. Fill them in or remove it.`);
  if (asked.trim() === '') throw new ConfigError(`${where} has a blank question. Fill it in or remove it.`);
  const golden = readGoldenAnswers(answer, { name: 'answer' });
  if (!golden.ok) throw new ConfigError(`${where}: ${golden.problem}.`);
  return { query: asked, ground_truth: golden.answers[0]! };
}

function filled(rows: QueryWithTruth[]): QueryWithTruth[] {
  if (rows.length === 0) throw new ConfigError('It has no rows.');
  return rows;
}
