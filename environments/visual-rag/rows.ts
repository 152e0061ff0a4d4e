/** Rows in upstream's columns, and as rows of the environment. */
import { ConfigError, type Row } from 'vf-search';
import { fieldsOf } from 'vf-search/environment-kit';
import { type Observations, promptMessages } from './prompt.ts';
import { goldenPages } from './pages.ts';

export interface VisualRow extends Row {
  readonly answer: string;
  readonly info: {
    readonly question: string;
    readonly file_name: string;
    readonly reference_page: readonly (number | string)[];
    /** Names of the golden pages. */
    readonly golden_pages: readonly string[];
    /** The subject of the question, if the data set names it. */
    readonly kind?: string;
  } & Readonly<Record<string, unknown>>;
}

/**
 * Reads `{id, extra_info: {file_name, reference_page, question}, reward_model: {ground_truth}}`. Throws ConfigError that names the column.
 * @param where file and row, for messages
 */
export function toVisualRow(record: Readonly<Record<string, unknown>>, where: string, observations: Observations): VisualRow {
  const extra = fieldsOf(record['extra_info']);
  const { question, file_name: fileName, reference_page: pages, kind } = extra;
  const answer = fieldsOf(record['reward_model'])['ground_truth'];
  const { id } = record;
  if (typeof id !== 'string' && typeof id !== 'number') throw wrong(where, 'id', 'the id of the row', id);
  if (typeof question !== 'string' || question.trim() === '') throw wrong(where, 'extra_info.question', 'a question', question);
  if (typeof fileName !== 'string' || fileName === '') throw wrong(where, 'extra_info.file_name', 'the name of a document', fileName);
  const listed = pageList(pages);
  if (listed === null) throw wrong(where, 'extra_info.reference_page', 'a list of page numbers', pages);
  if (typeof answer !== 'string') throw wrong(where, 'reward_model.ground_truth', 'the reference answer, a string', answer);
  return {
    exampleId: id,
    prompt: promptMessages(question, observations),
    answer,
    info: {
      question,
      file_name: fileName,
      reference_page: listed,
      golden_pages: goldenPages({ fileName, pages: listed }),
      ...(typeof kind === 'string' ? { kind } : {}),
    },
  };
}

function pageList(value: unknown): (number | string)[] | null {
  if (!Array.isArray(value)) return null;
  return value.every((page) => typeof page === 'number' || typeof page === 'string') ? value : null;
}

function wrong(where: string, column: string, expected: string, got: unknown): ConfigError {
  const shown = got === undefined ? 'nothing' : JSON.stringify(got)?.slice(0, 100);
  return new ConfigError(`${where}: the column ${column} must hold ${expected}, got ${shown}`);
}
