/** Adapters for the pure functions: prompt, rows, actions, observations, answers, format, scores. */
import { ConfigError } from 'vf-search';
import {
  computeScoreEm,
  computeScoreEmFormat,
  computeScoreSubem,
  CORRECTIVE_MESSAGE,
  cutResponse,
  emCheck,
  environmentMetrics,
  extractInformationBlocks,
  extractSolution,
  formatPassages,
  type GroundTruth,
  isRetrievalCorrect,
  isValidSequence,
  makePrefix,
  normalizeAnswer,
  normalizeQuestion,
  observation,
  parseAction,
  type PromptTemplate,
  subemCheck,
  toRow,
} from 'vf-search/environments/search-r1';
import type { Adapter } from './vectors.ts';

/** A passage as upstream's servers wrap it. */
export interface Hit {
  readonly document: { readonly contents: string };
}

interface Checked {
  readonly prediction: string;
  readonly golden_answers: string[] | string;
}

interface Plain {
  readonly solution_str: string;
  readonly ground_truth: GroundTruth;
  readonly format_score?: number;
  readonly score?: number;
}

interface Weighted {
  readonly solution_str: string;
  readonly ground_truth: GroundTruth;
  readonly weights: Readonly<Record<string, number>>;
}

interface Batch {
  readonly predictions: readonly string[];
  readonly active_mask: readonly boolean[];
  readonly do_search: boolean;
  readonly topk: number;
  readonly results: readonly (readonly Hit[])[];
}

interface DataRow {
  readonly script: string;
  readonly data_source: string;
  readonly split: string;
  readonly index: number;
  readonly example: { readonly question: string; readonly golden_answers: readonly string[]; readonly context?: string };
}

interface Stats {
  readonly turns_stats: readonly number[];
  readonly active_mask: readonly boolean[];
  readonly valid_action_stats: readonly number[];
  readonly valid_search_stats: readonly number[];
}

export const textAdapters: Readonly<Record<string, Adapter>> = {
  make_prefix: {
    actual: ({ script, question, context }: { script: string; question: string; context?: string }) =>
      makePrefix(question, { template: templateOf(script), ...(context === undefined ? {} : { context }) }),
  },
  normalize_question: { actual: ({ question }: { question: string }) => orPythonError(() => normalizeQuestion(question)) },
  data_rows: { actual: dataRow },
  postprocess_responses: { actual: ({ response }: { response: string }) => cutResponse(response) },
  postprocess_predictions: {
    actual: ({ predictions }: { predictions: readonly string[] }) => {
      const actions = predictions.map(parseAction);
      return { actions: actions.map((a) => a.action), contents: actions.map((a) => a.content) };
    },
  },
  execute_predictions: { actual: executeBatch },
  passages2string: { actual: ({ result }: { result: readonly Hit[] }) => formatPassages(result.map((hit) => hit.document)) },
  normalize_answer: { actual: ({ s }: { s: string }) => normalizeAnswer(s) },
  em_check: { actual: ({ prediction, golden_answers }: Checked) => emCheck(prediction, golden_answers) },
  subem_check: { actual: ({ prediction, golden_answers }: Checked) => subemCheck(prediction, golden_answers) },
  is_valid_sequence: { actual: ({ text }: { text: string }) => isValidSequence(text) },
  extract_solution: { actual: ({ solution_str }: { solution_str: string }) => extractSolution(solution_str) },
  extract_information_blocks: { actual: ({ text }: { text: string }) => extractInformationBlocks(text) },
  is_retrieval_correct: {
    actual: ({ text, golden_answers }: { text: string; golden_answers: string[] | string }) => isRetrievalCorrect(text, golden_answers),
  },
  compute_score_em_plain: { actual: (input: Plain) => computeScoreEm(input.solution_str, input.ground_truth, matchWeights(input)) },
  compute_score_subem: { actual: (input: Plain) => computeScoreSubem(input.solution_str, input.ground_truth, matchWeights(input)) },
  compute_score_em_format: {
    actual: ({ solution_str, ground_truth, weights }: Weighted) => computeScoreEmFormat(solution_str, ground_truth, formatWeights(weights)),
  },
  env_metrics: { actual: batchMetrics },
};

/** The prompt template of an upstream script. */
function templateOf(script: string): PromptTemplate {
  if (script === 'nq') return 'no_search';
  if (script === 'nq_rag') return 'rag';
  if (/^(nq|qa)_search(_|$)/.test(script)) return 'search';
  throw new Error(`${script} is not a script of upstream's scripts/data_process.`);
}

/** A blank question throws a ConfigError here and an IndexError in Python. */
function orPythonError<T>(call: () => T): T | { error: string } {
  try {
    return call();
  } catch (error) {
    if (error instanceof ConfigError) return { error: 'IndexError' };
    throw error;
  }
}

function dataRow({ script, data_source, split, index, example }: DataRow): unknown {
  const { question, golden_answers, context } = example;
  const options = { template: templateOf(script), ...(context === undefined ? {} : { context }) };
  return orPythonError(() => toRow({ question, golden_answers, data_source, split, index }, options));
}

function matchWeights({ format_score, score }: Plain): { formatScore?: number; score?: number } {
  return { ...(format_score === undefined ? {} : { formatScore: format_score }), ...(score === undefined ? {} : { score }) };
}

/** Accepts `format_score` but never uses it, like upstream. */
function formatWeights(weights: Readonly<Record<string, number>>): Record<string, number> {
  const names: Readonly<Record<string, string>> = {
    structure_format_score: 'structureFormatScore',
    final_format_score: 'finalFormatScore',
    retrieval_score: 'retrievalScore',
    score: 'score',
  };
  return Object.fromEntries(Object.entries(weights).flatMap(([name, value]) => (names[name] ? [[names[name], value]] : [])));
}

/** Upstream's step over a batch, composed of the port's functions. As in upstream there is a request even if no rollout searches. */
function executeBatch({ predictions, active_mask, do_search, topk, results }: Batch): unknown {
  const actions = predictions.map(parseAction);
  const queries = actions.filter((a) => a.action === 'search').map((a) => a.content);
  const found = do_search ? [...results] : queries.map(() => []);
  const steps = actions.map(({ action }, i) => {
    if (active_mask[i] !== true) return { text: '', done: 1, valid: 0, search: 0 };
    if (action === 'answer') return { text: '', done: 1, valid: 1, search: 0 };
    if (action === null) return { text: CORRECTIVE_MESSAGE, done: 0, valid: 0, search: 0 };
    return { text: observation((found.shift() ?? []).map((hit) => hit.document)), done: 0, valid: 1, search: 1 };
  });
  return {
    next_obs: steps.map((s) => s.text),
    dones: steps.map((s) => s.done),
    valid_action: steps.map((s) => s.valid),
    is_search: steps.map((s) => s.search),
    request: do_search ? { queries, topk, return_scores: true } : null,
  };
}

function batchMetrics({ turns_stats, active_mask, valid_action_stats, valid_search_stats }: Stats): unknown {
  return environmentMetrics(
    turns_stats.map((turns, i) => ({
      turns,
      stillActive: active_mask[i]!,
      validActions: valid_action_stats[i]!,
      validSearches: valid_search_stats[i]!,
    })),
  );
}
