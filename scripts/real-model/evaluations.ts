/** Evaluations of the proof with a real language model: runs vf-eval as a user does, and reads its rows. */
import { join } from 'node:path';
import { estimateShare } from '../../src/core/statistics.ts';
import type { Estimate } from '../../src/schemas/summary.ts';
import { runEvaluation, type WireSummary } from '../proof/run-evaluation.ts';
import { readRegularFileSync } from '../../src/files/regular-file.ts';
import { type Outcome, outcomeOf, OUTCOMES, type PlayedQuestion } from './outcomes.ts';

export interface EvaluationSettings {
  readonly environmentArgs: Readonly<Record<string, unknown>>;
  /** The first rows of the test split. */
  readonly rows: number;
  /** 0 is greedy. */
  readonly temperature: number;
  /** New tokens per generation; null for the environment's limit. */
  readonly maxTokens: number | null;
}

export interface Evaluation {
  /** Exact match of the last answer that the policy itself wrote, by row. */
  readonly em: Readonly<Record<string, number>>;
  readonly valid: Readonly<Record<string, number>>;
  /** Number of rows by outcome; absent in records of evaluations that did not count them. */
  readonly outcomes?: Readonly<Record<Outcome, number>>;
  /** Exact match as upstream counts it, which finds an answer in the prompt too. */
  readonly emUpstream: number;
  readonly retrievalHit: number;
  readonly searches: number;
  readonly truncated: number;
  readonly outputTokens: number;
  readonly seconds: number;
}

/** The policy of vf-eval: a model of a server, or the built-in extractive baseline. */
export type EvaluatedPolicy = { readonly url: string; readonly model: string } | 'baseline';

/** The number of times that an evaluation with failed rollouts is resumed. */
const ATTEMPTS = 3;

/** Continues from the contents of `folder`. Rejects if rollouts keep failing. */
export async function evaluatePolicy(folder: string, policy: EvaluatedPolicy, settings: EvaluationSettings): Promise<Evaluation> {
  const { rows, temperature, maxTokens, environmentArgs } = settings;
  const target = policy === 'baseline' ? ['-p', 'baseline'] : ['-b', policy.url, '-m', policy.model];
  const limit = maxTokens === null ? [] : ['-t', String(maxTokens)];
  const args = ['search-r1', ...target, ...limit, '-n', String(rows), '-T', String(temperature), '-c', '64', '-a', JSON.stringify(environmentArgs)];
  for (let attempt = 1; ; attempt++) {
    const summary = await runEvaluation([...args, '-o', folder, '-R']);
    if (summary.complete && summary.rollouts.errored === 0) return evaluationOf(summary);
    if (attempt === ATTEMPTS)
      throw new Error(`${summary.rollouts.errored} rollouts of ${summary.directory} failed ${ATTEMPTS} times; results.jsonl there says why.`);
  }
}

function evaluationOf({ directory, metrics, truncated, tokens, wall_seconds }: WireSummary): Evaluation {
  const lines = readRegularFileSync(join(directory, 'results.jsonl')).trimEnd().split('\n');
  // A rollout that failed and was played again has two lines; the later one counts.
  const rows = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>).filter(({ error }) => error === null);
  const byRow = (name: string) => Object.fromEntries(rows.map((row) => [String(row['example_id']), Number(row[name])]));
  const outcomes = rows.map((row) => outcomeOf(playedOf(row)));
  const mean = (name: string) => metrics[name]?.value ?? Number.NaN;
  return {
    em: byRow('em_model_authored'),
    valid: byRow('format_valid'),
    outcomes: Object.fromEntries(OUTCOMES.map((one) => [one, outcomes.filter((outcome) => outcome === one).length])) as Record<Outcome, number>,
    emUpstream: mean('em'),
    retrievalHit: mean('retrieval_hit'),
    searches: mean('searches'),
    truncated: truncated?.value ?? 0,
    outputTokens: tokens.output,
    seconds: Math.round(wall_seconds),
  };
}

function playedOf(row: Readonly<Record<string, unknown>>): PlayedQuestion {
  const { segments, info } = row as Pick<PlayedQuestion, 'segments'> & {
    readonly info: { readonly ground_truth: { readonly target: readonly string[] } };
  };
  return { segments, golden: info.ground_truth.target };
}

/** The share of rows with 1, with Wilson's 95 % interval. */
export function shareOf(byRow: Readonly<Record<string, number>>): Estimate {
  return estimateShare(Object.values(byRow).map((value) => [value]))!;
}

export function rowsOf(byRow: Readonly<Record<string, number>>): ReadonlyMap<string, number> {
  return new Map(Object.entries(byRow));
}
