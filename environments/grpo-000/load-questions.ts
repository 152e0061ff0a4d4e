/** The rows of a data set, read as in search-r1, or from a `.json` file in the form of the specification. */
import { ConfigError } from 'vf-search';
import { doubtfulNotices, loadQuestions, readDocument, SAME_ROWS_NOTICE, type SearchContext } from 'vf-search/environment-kit';
import type { GrpoArguments } from './arguments.ts';
import type { GrpoQuestion } from './grpo-env.ts';
import { type QueryWithTruth, rowsFromJson } from './rows.ts';

interface Questions {
  readonly rows: readonly GrpoQuestion[];
  readonly trainRows?: readonly GrpoQuestion[];
  /** The split that `data_split` names or stands for. */
  readonly split: string;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
}

/** A `.json` or `.csv` file has one split, and its rows are numbered. Throws ConfigError for a data set that is unknown or cannot be read. */
export async function questionsOf(parsed: GrpoArguments, context: SearchContext): Promise<Questions> {
  const { dataset, columns, dataLimit, dataSplit } = parsed;
  if (columns !== undefined || !/\.(json|csv)$/i.test(dataset)) return loadQuestions(parsed, context);
  if (/\.csv$/i.test(dataset)) {
    const { rows, trainRows, ...loaded } = await loadQuestions(parsed, context);
    return { ...loaded, rows: rows.map(numbered), ...(trainRows === undefined ? {} : { trainRows: trainRows.map(numbered) }) };
  }
  const listed = (await readRows(dataset)).slice(0, dataLimit ?? Infinity);
  const rows = listed.map(({ query, ground_truth }, i) => numbered({ question: query, golden_answers: [ground_truth] }, i));
  const questions = { dataset, rows: rows.length };
  const doubtful = doubtfulNotices(rows.map(({ id, golden_answers: answers }) => ({ where: id, answers })));
  if (context.purpose !== 'training') return { rows, split: dataSplit ?? 'test', notices: doubtful, provenance: { questions } };
  const provenance = { questions, training_questions: questions };
  return { rows, trainRows: rows, split: dataSplit ?? 'train', notices: [SAME_ROWS_NOTICE, ...doubtful], provenance };
}

function numbered<Q extends Omit<GrpoQuestion, 'id'>>(row: Q, index: number): Q & { readonly id: string } {
  return { ...row, id: `row_${index}` };
}

async function readRows(path: string): Promise<QueryWithTruth[]> {
  try {
    return rowsFromJson(await readDocument(path));
  } catch (cause) {
    if (!(cause instanceof ConfigError) || cause.message.includes(path)) throw cause;
    throw new ConfigError(`${path}: ${cause.message}`, { cause });
  }
}
