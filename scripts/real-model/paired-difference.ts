/** The difference between two policies on the same rows, with a 95 % bootstrap interval over rows. Pure. */
import { Random } from 'vf-search';

/** A value per row, by the row's id. */
export type ByRow = ReadonlyMap<string, number>;

export interface PairedDifference {
  /** Mean of `after - before` over the rows that both have. */
  readonly value: number;
  /** 2.5 % and 97.5 % quantiles of that mean over resampled rows. */
  readonly low: number;
  readonly high: number;
  readonly rows: number;
  /** Rows with a higher and with a lower value. */
  readonly gained: number;
  readonly lost: number;
}

export interface BootstrapOptions {
  /** @default 0 */
  readonly seed?: number;
  /** @default 10,000 */
  readonly resamples?: number;
}

/** Null if no row is in both. The same seed gives the same interval. */
export function pairedDifference(before: ByRow, after: ByRow, { seed = 0, resamples = 10_000 }: BootstrapOptions = {}): PairedDifference | null {
  // In the order of the ids, so that the interval does not depend on the order of the files.
  const shared = [...before.keys()].filter((row) => after.has(row)).toSorted();
  const differences = shared.map((row) => after.get(row)! - before.get(row)!);
  const rows = differences.length;
  if (rows === 0) return null;
  const random = Random.fromSeed(seed);
  const means = Float64Array.from({ length: resamples }, () => {
    let sum = 0;
    for (let i = 0; i < rows; i++) sum += differences[random.integer(rows)]!;
    return sum / rows;
  }).toSorted();
  return {
    value: differences.reduce((sum, x) => sum + x, 0) / rows,
    low: means[Math.floor(0.025 * resamples)]!,
    high: means[Math.ceil(0.975 * resamples) - 1]!,
    rows,
    gained: differences.filter((x) => x > 0).length,
    lost: differences.filter((x) => x < 0).length,
  };
}
