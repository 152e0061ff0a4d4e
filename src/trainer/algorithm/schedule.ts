/** A setting over the steps of a run: a linear warm-up, then constant, or falling to a floor along a line or half a cosine. */

export interface Schedule {
  readonly shape: 'constant' | 'linear' | 'cosine';
  /** The value after the warm-up: the learning rate, a KL coefficient, ... */
  readonly peak: number;
  /** The value at the end of a falling schedule. */
  readonly floor: number;
  /** Steps until the peak. Upstream gives a share of the run: ⌊0.285 · steps⌋. */
  readonly warmupSteps: number;
  /** Steps of the whole run, warm-up included; later ones stay at the floor. */
  readonly totalSteps: number;
}

/**
 * The value at `step`, counted from 0. The warm-up reaches the peak at step `warmupSteps` − 1; that of Hugging Face and verl starts at exactly 0
 * and so spends the first batch on nothing.
 */
export function scheduledValue({ shape, peak, floor, warmupSteps, totalSteps }: Schedule, step: number): number {
  if (step < warmupSteps) return (peak * (step + 1)) / warmupSteps;
  if (shape === 'constant') return peak;
  const progress = Math.min((step - warmupSteps) / Math.max(totalSteps - warmupSteps, 1), 1);
  const left = shape === 'linear' ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return floor + (peak - floor) * left;
}
