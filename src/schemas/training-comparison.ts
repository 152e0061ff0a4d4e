/** The comparison of trainings: the figures that `vf-compare` and the end of an ablation print, and the JSON object of `--json`. */
import { snakeKeys } from './key-case.ts';
import type { Estimate } from './summary.ts';

/** A held-out value with its interval over rows, which a metric other than the reward lacks. */
export interface EvaluatedAt {
  readonly step: number;
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly rollouts: number;
}

export type TrainingState = 'finished' | 'stopped' | 'failed' | 'unfinished';

export interface ComparedTrainingRun {
  readonly name: string;
  /** Null for a run that never got one. */
  readonly directory: string | null;
  readonly seed: number;
  readonly state: TrainingState;
  /** Why it stopped or failed; null for a run that finished. */
  readonly reason: string | null;
  /** The last step on file, and the configured number. */
  readonly step: number;
  readonly steps: number;
  /** The last evaluation, and the highest one, the first of equals; null if no usable version was evaluated. */
  readonly last: EvaluatedAt | null;
  readonly best: EvaluatedAt | null;
  /** True if the group's figures count it: it has finished, was evaluated, and no earlier run of the group has its seed. */
  readonly counts: boolean;
}

export interface SeedEstimate extends Estimate {
  /** What the interval covers: other seeds, or, for a single run, other rows. `n` counts them, as seeds or rollouts. */
  readonly over: 'seeds' | 'rows';
}

export interface TrainingGroup {
  /** `A`, `B`, ... in the order of appearance. */
  readonly name: string;
  /** The settings in which the groups differ, by dotted key; empty if there is one group. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The same as text: `lr 0.001`. */
  readonly label: string;
  readonly runs: readonly ComparedTrainingRun[];
  /** Of the runs that count; null without any. */
  readonly last: SeedEstimate | null;
  readonly best: SeedEstimate | null;
}

export interface TrainingPair {
  /** Names of two groups. Every difference is second minus first, of the last evaluations. */
  readonly first: string;
  readonly second: string;
  /** Over seeds; null unless both groups have at least two. */
  readonly seeds: {
    readonly test: 'paired' | 'welch';
    readonly difference: Estimate;
    readonly p: number;
    /** After Holm's correction for the number of comparisons. */
    readonly pAdjusted: number;
    readonly degrees: number;
  } | null;
  /** Over the held-out rows, each with the mean over its seeds; null if the groups were not evaluated on the same rows. */
  readonly rows: {
    readonly rows: number;
    readonly difference: Estimate;
    /** Present only if every value is 0 or 1. */
    readonly mcnemar: { readonly p: number; readonly pAdjusted: number; readonly isExact: boolean } | null;
    readonly wins: number;
    readonly losses: number;
    readonly ties: number;
  } | null;
}

export interface TrainingComparison {
  /** `reward`, or the metric that was asked for. */
  readonly metric: string;
  readonly seed: number;
  readonly resamples: number;
  readonly groups: readonly TrainingGroup[];
  readonly pairs: readonly TrainingPair[];
}

/** The comparison as JSON: the same fields in snake_case. */
export function trainingComparisonToWire(comparison: TrainingComparison): Record<string, unknown> {
  return snakeKeys(comparison, ['settings']) as Record<string, unknown>;
}
