/** Rows in the form that upstream's `process_fn` writes (scripts/data_process/nq_search.py), and as rows of the environment. */
import type { Message, Row } from 'vf-search';
import { makePrefix, normalizeQuestion, type PromptTemplate } from './prompt.ts';

/** A question of a data set. `index` counts from 0 within one data source and split. */
export interface Question {
  readonly question: string;
  readonly golden_answers: readonly string[];
  readonly data_source: string;
  readonly split: string;
  readonly index: number;
}

export interface UpstreamRow {
  readonly data_source: string;
  readonly prompt: readonly Message[];
  readonly ability: 'fact-reasoning';
  readonly reward_model: { readonly style: 'rule'; readonly ground_truth: GroundTruth };
  readonly extra_info: { readonly split: string; readonly index: number };
}

export interface GroundTruth {
  /** Golden answers, unchanged. Upstream also accepts one bare string. */
  readonly target: readonly string[] | string;
}

/** A question as upstream's row. Throws ConfigError if the question is blank. */
export function toRow(question: Question, options: { readonly template?: PromptTemplate; readonly context?: string } = {}): UpstreamRow {
  return {
    data_source: question.data_source,
    prompt: [{ role: 'user', content: makePrefix(normalizeQuestion(question.question), options) }],
    ability: 'fact-reasoning',
    reward_model: { style: 'rule', ground_truth: { target: question.golden_answers } },
    extra_info: { split: question.split, index: question.index },
  };
}

/**
 * A row of the environment: upstream's fields in `info`, with the file's own columns of text, numbers and lists of them, and the golden answers again in the field
 * that verifiers rubrics read.
 */
export interface SearchR1Row extends Row {
  readonly info: Omit<UpstreamRow, 'prompt'> & { readonly ground_truth: GroundTruth } & Record<string, unknown>;
}

export function toEnvironmentRow(row: Question & { readonly id: string }): SearchR1Row {
  const { id, question, golden_answers, data_source, split, index, ...others } = row;
  const { prompt, ...rest } = toRow({ question, golden_answers, data_source, split, index });
  const [only, ...further] = golden_answers;
  return {
    exampleId: id,
    prompt,
    ...(only !== undefined && further.length === 0 ? { answer: only } : {}),
    info: { ...plainColumns(others), ...rest, ground_truth: rest.reward_model.ground_truth },
  };
}

/** Columns by which results can be sorted and sliced. Objects, such as FlashRAG's `metadata` with whole documents, would be in every rollout. */
function plainColumns(columns: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const isPlain = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value);
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => isPlain(value) || (Array.isArray(value) && value.every(isPlain))));
}
