/** Divides prompts by their results in a phase: already learned, in reach, out of reach (DDAI, generate_curriculum_data). Pure. */
import { compareTexts } from './compare-texts.ts';

type BucketName = 'A' | 'B' | '0';

/** Bounds of the buckets. Both bounds themselves belong to A. */
export interface BucketBounds {
  /** Prompts with a mean below this are in bucket 0. @default 0.1 (DDAI) */
  readonly low?: number;
  /** Prompts with a mean above this are in bucket B. @default 0.7 (DDAI) */
  readonly high?: number;
}

export interface ScoredPrompt {
  readonly id: string;
  /** Mean of the metric over the prompt's rollouts. */
  readonly mean: number;
}

export type Buckets = Readonly<Record<BucketName, readonly ScoredPrompt[]>>;

/** The buckets of the prompts, each from the highest mean to the lowest, equal means by id, so that a run without shuffling goes from easy to hard. */
export function bucketPrompts(prompts: readonly ScoredPrompt[], { low = 0.1, high = 0.7 }: BucketBounds = {}): Buckets {
  const sorted = prompts.toSorted((a, b) => b.mean - a.mean || compareTexts(a.id, b.id));
  const inBucket = (isIn: (mean: number) => boolean) => sorted.filter(({ mean }) => isIn(mean));
  return {
    A: inBucket((mean) => mean >= low && mean <= high),
    B: inBucket((mean) => mean > high),
    '0': inBucket((mean) => !(mean >= low)),
  };
}

/** Ids of the prompts whose mean is at most the threshold. */
export function hardPrompts(prompts: readonly ScoredPrompt[], threshold: number): ReadonlySet<string> {
  return new Set(prompts.filter(({ mean }) => mean <= threshold).map(({ id }) => id));
}

/** The mean of a metric for every prompt, in the order of their first values. */
export function promptMeans(values: Iterable<{ readonly id: string; readonly value: number }>): ScoredPrompt[] {
  const byId = new Map<string, number[]>();
  for (const { id, value } of values) {
    const known = byId.get(id);
    if (known === undefined) byId.set(id, [value]);
    else known.push(value);
  }
  return [...byId].map(([id, all]) => ({ id, mean: all.reduce((sum, value) => sum + value, 0) / all.length }));
}
