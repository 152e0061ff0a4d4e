/** Metrics of a loss that can be merged: those of an optimiser step's parts give those of the whole step. */

/** Over trained tokens, unless the name says sequences. Null if not measured: no tokens, or not configured. */
export interface LossMetrics {
  /** Trained tokens. */
  readonly tokens: number;
  /** Sequences with at least one trained token. */
  readonly trainedSequences: number;
  /** r = π / π_old per token, after clamping its logarithm; 0.999 to 1.001 in a healthy on-policy step. */
  readonly meanRatio: number | null;
  readonly minRatio: number | null;
  readonly maxRatio: number | null;
  /** KL(π_old || π) as mean(−log r): Search-R1's and verl's `ppo_kl`. */
  readonly approxKlK1: number | null;
  /** The same as mean(r − 1 − log r). */
  readonly approxKlK3: number | null;
  /** Share of tokens outside the bounds, which have no gradient (clip) or a truncated weight (CISPO). */
  readonly clipFraction: number | null;
  readonly clipFractionLow: number | null;
  readonly clipFractionHigh: number | null;
  /** Share of tokens cut by the dual clip; not included in `clipFraction`. */
  readonly dualClipFraction: number | null;
  /** Only for sequence ratios (GSPO). */
  readonly meanSequenceRatio: number | null;
  /** Share of trained sequences with a clipped token. */
  readonly clipFractionSequences: number | null;
  /** Importance weights of the sampler correction, after truncation. */
  readonly correctionMean: number | null;
  readonly correctionMin: number | null;
  readonly correctionMax: number | null;
  /** Share of tokens whose weight reached the cap. */
  readonly correctionTruncatedFraction: number | null;
  /** Mean of sampler − old log-prob: how much trainer and server differ. */
  readonly mismatchK1: number | null;
  /** Mean KL estimate of the penalty in the loss, clamped, before its coefficient. */
  readonly klMean: number | null;
}

/** How to merge each metric of the parts. */
const MERGE: Readonly<Record<keyof LossMetrics, 'sum' | 'token_mean' | 'sequence_mean' | 'min' | 'max'>> = {
  tokens: 'sum',
  trainedSequences: 'sum',
  meanRatio: 'token_mean',
  minRatio: 'min',
  maxRatio: 'max',
  approxKlK1: 'token_mean',
  approxKlK3: 'token_mean',
  clipFraction: 'token_mean',
  clipFractionLow: 'token_mean',
  clipFractionHigh: 'token_mean',
  dualClipFraction: 'token_mean',
  meanSequenceRatio: 'sequence_mean',
  clipFractionSequences: 'sequence_mean',
  correctionMean: 'token_mean',
  correctionMin: 'min',
  correctionMax: 'max',
  correctionTruncatedFraction: 'token_mean',
  mismatchK1: 'token_mean',
  klMean: 'token_mean',
};

/** Merges the metrics of disjoint parts. */
export function mergeLossMetrics(parts: readonly LossMetrics[]): LossMetrics {
  const merged = Object.entries(MERGE).map(([name, rule]) => {
    const key = name as keyof LossMetrics;
    const known = parts.flatMap((part) => (part[key] === null ? [] : [{ value: part[key], ...part }]));
    if (rule === 'sum') return [key, known.reduce((sum, { value }) => sum + value, 0)];
    if (known.length === 0) return [key, null];
    if (rule === 'min') return [key, Math.min(...known.map(({ value }) => value))];
    if (rule === 'max') return [key, Math.max(...known.map(({ value }) => value))];
    const weight = rule === 'token_mean' ? 'tokens' : 'trainedSequences';
    const total = known.reduce((sum, part) => sum + part[weight], 0);
    return [key, known.reduce((sum, part) => sum + part.value * part[weight], 0) / total];
  });
  return Object.fromEntries(merged);
}

/** Running sums of one call; `metrics` divides them. */
export class LossSums {
  tokens = 0;
  sequences = 0;
  ratio = 0;
  minRatio = Infinity;
  maxRatio = -Infinity;
  logRatio = 0;
  below = 0;
  above = 0;
  dual = 0;
  sequenceRatio = 0;
  clippedSequences = 0;
  correction = 0;
  minCorrection = Infinity;
  maxCorrection = -Infinity;
  truncated = 0;
  mismatch = 0;
  kl = 0;

  metrics(measured: { readonly sequenceRatio: boolean; readonly correction: boolean; readonly kl: boolean }): LossMetrics {
    const { tokens, sequences } = this;
    const only = (isMeasured: boolean, value: number) => (isMeasured && tokens > 0 ? value : null);
    const perToken = (sum: number, isMeasured = true) => only(isMeasured, sum / tokens);
    return {
      tokens,
      trainedSequences: sequences,
      meanRatio: perToken(this.ratio),
      minRatio: only(true, this.minRatio),
      maxRatio: only(true, this.maxRatio),
      approxKlK1: perToken(-this.logRatio),
      approxKlK3: perToken(this.ratio - tokens - this.logRatio),
      clipFraction: perToken(this.below + this.above),
      clipFractionLow: perToken(this.below),
      clipFractionHigh: perToken(this.above),
      dualClipFraction: perToken(this.dual),
      meanSequenceRatio: only(measured.sequenceRatio, this.sequenceRatio / sequences),
      clipFractionSequences: only(measured.sequenceRatio, this.clippedSequences / sequences),
      correctionMean: perToken(this.correction, measured.correction),
      correctionMin: only(measured.correction, this.minCorrection),
      correctionMax: only(measured.correction, this.maxCorrection),
      correctionTruncatedFraction: perToken(this.truncated, measured.correction),
      mismatchK1: perToken(this.mismatch, measured.correction),
      klMean: perToken(this.kl, measured.kl),
    };
  }
}
