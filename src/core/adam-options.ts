/** The settings of one step of Adam. */
export interface AdamOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** Decoupled, as in AdamW. */
  readonly weightDecay: number;
  /** Larger gradients are scaled down to this norm; null turns clipping off. */
  readonly maxGradNorm: number | null;
}

/** Describes the fault in the options, in one sentence: one is negative or not finite, a beta is 1 or more, or epsilon is 0 in single precision: weights whose gradient is 0 would become 0/0, as those of LoRA's A in the first step. Null if there is none. */
export function adamProblem(options: AdamOptions): string | null {
  const { beta1, beta2, epsilon } = options;
  const wrong = Object.entries(options).find(([, value]: [string, unknown]) => value !== null && !(Number.isFinite(value) && (value as number) >= 0));
  if (wrong) return `Adam's ${wrong[0]} must be a finite number of at least 0, got ${wrong[1]}`;
  if (Math.fround(epsilon) === 0) return `Adam's epsilon must be above 0, got ${epsilon}`;
  return beta1 >= 1 || beta2 >= 1 ? `Adam's betas must be below 1, got ${beta1} and ${beta2}` : null;
}
