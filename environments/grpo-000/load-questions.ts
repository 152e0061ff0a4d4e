/** The rows of a data set, read as in search-r1, or from a `.json` or `.csv` file in the form of the specification. */
import { ConfigError } from 'vf-search';
import { loadQuestions, readDocument, readTextFile, SAME_ROWS_NOTICE, type SearchContext } from 'vf-search/environment-kit';
import type { GrpoArguments } from './arguments.ts';
import type { GrpoQuestion } from './grpo-env.ts';
import { type QueryWithTruth, rowsFromCsv, rowsFromJson } from './rows.ts';

interface Questions {
  readonly rows: readonly GrpoQuestion[];
  readonly trainRows?: readonly GrpoQuestion[];
  /** The split that `data_split` names or stands for. */
  readonly split: string;
  readonly notices: readonly string[];
  readonly provenance: Readonly<Record<string, unknown>>;
}

/** A `.json` or `.csv` file has one split. Throws ConfigError for a data set that is unknown or cannot be read. */
export async function questionsOf(parsed: GrpoArguments, context: SearchContext): Promise<Questions> {
  const { dataset, dataLimit, dataSplit } = parsed;
  if (!/\.(json|csv)$/i.test(dataset)) return loadQuestions(parsed, context);
  const listed = (await readRows(dataset)).slice(0, dataLimit ?? Infinity);
  const rows = listed.map(({ query, ground_truth }, i) => ({ id: `row_${i}`, question: query, golden_answers: [ground_truth] }));
  const questions = { dataset, rows: rows.length };
  if (context.purpose !== 'training') return { rows, split: dataSplit ?? 'test', notices: [], provenance: { questions } };
  const provenance = { questions, training_questions: questions };
  return { rows, trainRows: rows, split: dataSplit ?? 'train', notices: [SAME_ROWS_NOTICE], provenance };
}

async function readRows(path: string): Promise<QueryWithTruth[]> {
  try {
    return path.toLowerCase().endsWith('.csv') ? rowsFromCsv(await readTextFile(path)) : rowsFromJson(await readDocument(path));
  } catch (cause) {
    if (!(cause instanceof ConfigError) || cause.message.includes(path)) throw cause;
    throw new ConfigError(`${path}: ${cause.message}`, { cause });
  }
}
