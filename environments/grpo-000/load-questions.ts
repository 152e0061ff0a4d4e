/** The rows of a data set: as search-r1 reads them, or a `.json` or `.csv` file as the specification lists data. */
import { ConfigError, loadRows, readDocument, readTextFile } from 'vf-search';
import type { GrpoArguments } from './arguments.ts';
import type { GrpoQuestion } from './grpo-env.ts';
import { type QueryWithTruth, rowsFromCsv, rowsFromJson } from './rows.ts';

export interface LoadQuestionsContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
}

export interface LoadedQuestions {
  readonly questions: readonly GrpoQuestion[];
  readonly provenance: unknown;
}

/** A `.json` or `.csv` file has one split. Throws ConfigError for a data set that is unknown or cannot be read. */
export async function loadQuestions(
  { dataset, dataLimit }: Pick<GrpoArguments, 'dataset' | 'dataLimit'>,
  split: string,
  context: LoadQuestionsContext,
): Promise<LoadedQuestions> {
  const limit = dataLimit ?? Infinity;
  if (!/\.(json|csv)$/i.test(dataset)) {
    const { rows, provenance } = await loadRows({ ...context, dataset, split, ...(limit === Infinity ? {} : { limit }) });
    return { questions: rows, provenance };
  }
  const rows = await readRows(dataset);
  const questions = rows.slice(0, limit).map(({ query, ground_truth }, i) => ({ id: `row_${i}`, question: query, golden_answers: [ground_truth] }));
  return { questions, provenance: { dataset, rows: questions.length } };
}

async function readRows(path: string): Promise<QueryWithTruth[]> {
  try {
    return path.toLowerCase().endsWith('.csv') ? rowsFromCsv(await readTextFile(path)) : rowsFromJson(await readDocument(path));
  } catch (cause) {
    if (!(cause instanceof ConfigError) || cause.message.includes(path)) throw cause;
    throw new ConfigError(`${path}: ${cause.message}`, { cause });
  }
}
