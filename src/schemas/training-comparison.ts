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
  /** The evaluation before the first step, of the untrained policy; null if there was none. */
  readonly start: EvaluatedAt | null;
  /** Of trained versions, so after the start: the last evaluation, and the highest one, the first of equals; null if none was evaluated. */
  readonly last: EvaluatedAt | null;
  readonly best: EvaluatedAt | null;
  /** True if the group's figures count it: it has finished, was evaluated, and no earlier run of the group has its seed. */
  readonly counts: boolean;
  /** Sums over its steps on file, and seconds of steps, evaluations and checkpoints. */
  readonly tokens: { readonly sampled: number; readonly trained: number };
  readonly seconds: number;
  /** US dollars that the models by role have cost; null if that is unknown. Absent if none can cost anything, and outside of an ablation. */
  readonly usd?: number | null;
}

/** Without an interval for one seed whose rows have none, and for seeds or rows that agree exactly, which show no spread. */
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
  /** The name that all of its runs were given; null if they have none in common. */
  readonly run: string | null;
  /** Id or path of the environment; null if no run of the group began. */
  readonly environment: string | null;
  readonly runs: readonly ComparedTrainingRun[];
  /** Of the runs that count; null without any. */
  readonly last: SeedEstimate | null;
  readonly best: SeedEstimate | null;
  /** Null unless every run that counts was evaluated at the start. `gain`: last minus start of each run. */
  readonly start: SeedEstimate | null;
  readonly gain: SeedEstimate | null;
  /** Runs that count whose best version was above its start; null without `start`. */
  readonly beatStart: number | null;
}

export interface TrainingPair {
  /** Names of two groups. Every difference is second minus first, of the last evaluations. */
  readonly first: string;
  readonly second: string;
  /** Why the rewards of the groups have no common scale, so that nothing is tested; null if they have one. */
  readonly notComparable: string | null;
  /** What a reader must know about the difference: arguments of the environment that differ. */
  readonly note: string | null;
  /** Why `seeds` or `rows` is null. */
  readonly noSeedsTest: string | null;
  readonly noRowsTest: string | null;
  /** Over seeds; null unless both groups have at least two, played the same rows, and vary. */
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
  /** Of all runs, counted or not. `usd`: null if the cost of one is unknown; absent if none can cost anything. */
  readonly totals: { readonly tokens: ComparedTrainingRun['tokens']; readonly seconds: number; readonly usd?: number | null };
}

/** The comparison as JSON: the same fields in snake_case. */
export function trainingComparisonToWire(comparison: TrainingComparison): Record<string, unknown> {
  return snakeKeys(comparison, ['settings']) as Record<string, unknown>;
}
