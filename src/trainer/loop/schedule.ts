/** A setting over the steps of a run: linear warm-up, then constant or a linear or half-cosine decay to a floor. */

export interface Schedule {
  readonly shape: 'constant' | 'linear' | 'cosine';
  /** The value after the warm-up: the learning rate, a KL coefficient, ... */
  readonly peak: number;
  /** The value at the end of a decaying schedule. */
  readonly floor: number;
  /** Steps until the peak. Upstream sets a share of the run: ⌊0.285 · steps⌋. */
  readonly warmupSteps: number;
  /** Steps of the whole run, warm-up included; later ones stay at the floor. */
  readonly totalSteps: number;
}

/**
 * The value at `step`, counted from 0. The warm-up reaches the peak at step `warmupSteps` − 1. In Hugging Face and verl it starts at exactly 0, which
 * wastes the first batch.
 */
export function scheduledValue({ shape, peak, floor, warmupSteps, totalSteps }: Schedule, step: number): number {
  if (step < warmupSteps) return (peak * (step + 1)) / warmupSteps;
  if (shape === 'constant') return peak;
  const progress = Math.min((step - warmupSteps) / Math.max(totalSteps - warmupSteps, 1), 1);
  const left = shape === 'linear' ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return floor + (peak - floor) * left;
}
