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

/** A row of the environment: upstream's fields in `info`, and the golden answers again in the field that verifiers rubrics read. */
export interface SearchR1Row extends Row {
  readonly info: Omit<UpstreamRow, 'prompt'> & { readonly ground_truth: GroundTruth } & Record<string, unknown>;
}

export function toEnvironmentRow(question: Question & { readonly id: string }): SearchR1Row {
  const { prompt, ...rest } = toRow(question);
  const [only, ...others] = question.golden_answers;
  return {
    exampleId: question.id,
    prompt,
    ...(only !== undefined && others.length === 0 ? { answer: only } : {}),
    info: { ...rest, ground_truth: rest.reward_model.ground_truth },
  };
}
