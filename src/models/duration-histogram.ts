import type { Quantiles } from '../schemas/role-stats.ts';

/** Adjacent buckets differ by 2 %, so that a quantile is exact to 1 %. */
const LOG_RATIO = Math.log(1.02);
/** Shorter durations count as 0. */
const SHORTEST_MS = 0.001;

/** A histogram of durations with logarithmic buckets: quantiles of any number of durations in constant memory. */
export class DurationHistogram {
  readonly #counts = new Map<number, number>();
  #total = 0;

  /** `ms`: at least 0. */
  add(ms: number): void {
    const bucket = ms < SHORTEST_MS ? -1 : Math.floor(Math.log(ms / SHORTEST_MS) / LOG_RATIO);
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + 1);
    this.#total += 1;
  }

  /** In milliseconds; null if there are no durations. */
  quantiles(): Quantiles | null {
    if (this.#total === 0) return null;
    const ordered = [...this.#counts].toSorted(([a], [b]) => a - b);
    const at = (share: number) => {
      let left = Math.ceil(share * this.#total);
      for (const [bucket, count] of ordered) {
        left -= count;
        if (left <= 0) return bucket < 0 ? 0 : SHORTEST_MS * Math.exp((bucket + 0.5) * LOG_RATIO);
      }
      throw new RangeError('The histogram holds fewer durations than it has counted.');
    };
    return { p50: at(0.5), p90: at(0.9), p99: at(0.99) };
  }
}
