/** The comparison of runs: the figures that `vf-compare` prints, and the JSON object of `--json`. */
import { snakeKeys } from './key-case.ts';
import type { Estimate, ForkFigures } from './summary.ts';

export interface ComparedSide {
  /** `A`, `B`, ... in the order of the command. */
  readonly name: string;
  /** The run's own name, with the settings that differ if another run has the same one; null for a run without a name. */
  readonly run: string | null;
  readonly directory: string;
  readonly envId: string;
  readonly model: string;
  /** What a reader must know about it (`played by version 3`), then the settings in which it differs from the first run: `env_args.max_turns: 2 → 4`. */
  readonly changes: readonly string[];
  /** Over the rows of the comparison, all finished rollouts. */
  readonly finished: number;
  readonly failed: number;
  /** Where conversations of agents left what had been said, over the same rollouts and the failed ones; absent if none did. */
  readonly forks?: ForkFigures;
  /** Rows of the run that another one lacks; they are left out. */
  readonly otherRows: number;
  /** Of the compared metric, with its interval over rows; null if nothing finished. */
  readonly mean: Estimate | null;
  /** pass@k of the rewards, by k; empty if rows have one rollout. */
  readonly passAtK: Readonly<Record<string, Estimate>>;
  readonly passAllK: Readonly<Record<string, Estimate>>;
}

export interface RowDifference {
  readonly exampleId: string | number;
  readonly question: string;
  readonly answer: string | null;
  /** Means over the row's pairs. */
  readonly first: number;
  readonly second: number;
  readonly pairs: number;
}

export interface ComparedPair {
  /** Names of two sides. Every difference is second minus first. */
  readonly first: string;
  readonly second: string;
  /** Why the rewards have no common scale, so that nothing is compared; null if they have one. */
  readonly notComparable: string | null;
  /** Number of pairs of rollouts with the same row and index, both finished, and of rows that have some. */
  readonly pairs: number;
  readonly rows: number;
  /** Finished rollouts of either side without a partner: it failed, or was not played. */
  readonly unpaired: number;
  /** Mean difference with its bootstrap interval; null without pairs, and if the rewards cannot be compared. */
  readonly difference: Estimate | null;
  /** Present only if every value is 0 or 1. */
  readonly mcnemar: {
    /** Pairs in which only the second, or only the first, has a 1. */
    readonly gained: number;
    readonly lost: number;
    readonly p: number;
    /** After Holm's correction for the number of comparisons. */
    readonly pAdjusted: number;
    readonly isExact: boolean;
  } | null;
  /** Rows in which the second is better, worse, or as good. */
  readonly wins: number;
  readonly losses: number;
  readonly ties: number;
  /** Differences of the other metrics that both runs have, by name. */
  readonly metrics: Readonly<Record<string, Estimate>>;
  /** Differences by task; absent if rows have no tasks. */
  readonly tasks?: Readonly<Record<string, Estimate>>;
  /** Rows that differ, largest difference first. */
  readonly rowDifferences: readonly RowDifference[];
}

export interface Comparison {
  /** `reward`, or the metric that was asked for. */
  readonly metric: string;
  /** Rows that all runs have. */
  readonly rows: number;
  readonly seed: number;
  readonly resamples: number;
  readonly passThreshold: number;
  readonly sides: readonly ComparedSide[];
  readonly pairs: readonly ComparedPair[];
}

/** Keys of these objects are names from elsewhere. */
const NAMED = ['metrics', 'tasks', 'kinds', 'passAtK', 'passAllK'];

/** The comparison as JSON: the same fields in snake_case. */
export function comparisonToWire(comparison: Comparison): Record<string, unknown> {
  return snakeKeys(comparison, NAMED) as Record<string, unknown>;
}
