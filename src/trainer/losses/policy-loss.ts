/**
 * Losses on the importance ratio, and their gradient by the log-prob of every token: PPO, GRPO, DAPO, Dr. GRPO, GSPO, CISPO, importance
 * sampling. The configuration chooses the level of the ratio, the objective, the sampler correction, the aggregation and the KL penalty; the table in
 * README.md lists the papers' combinations. Losses are minimised. Pure, in float64, without state between calls.
 */
import { type Aggregation, tokenWeight } from './aggregation.ts';
import { addKlGradient, type KlBatch, type KlConfig } from './kl.ts';
import { type LossMetrics, LossSums } from './loss-metrics.ts';
import { checkCounts, type TokenCounts, type TokenLayout, trainedTokens } from './token-mask.ts';

export type Objective =
  /**
   * −min(r A, clip(r, 1 − clipLow, 1 + clipHigh) A): PPO (arXiv 1707.06347). clipHigh > clipLow is DAPO's clip-higher (arXiv 2503.14476).
   * `dualClip` c > 1 also bounds it by −c A where A < 0 (arXiv 1912.09729); null for none.
   */
  | { readonly kind: 'clip'; readonly clipLow: number; readonly clipHigh: number; readonly dualClip: number | null }
  /** −sg(clip(r, ratioMin, ratioMax)) A log π: CISPO (arXiv 2506.13585). Bounds the ratio itself; every token keeps a gradient. */
  | { readonly kind: 'cispo'; readonly ratioMin: number; readonly ratioMax: number }
  /** −r A, without bounds. */
  | { readonly kind: 'importance_sampling' };

/**
 * Truncated importance sampling (TIS, "Your efficient RL framework secretly brings you off-policy RL training", 2025): multiplies a token's policy term
 * by the constant min(π_old / π_sampler, cap), because server and trainer do not compute bit-identical log-probs. Does not affect the KL term.
 */
interface SamplerCorrection {
  /** The ratio of each token, or the product over the trained tokens of the sequence. */
  readonly level: 'token' | 'sequence';
  readonly cap: number;
}

export interface PolicyLossConfig {
  /** r per token, or one per sequence, exp(mean of log r over its trained tokens): GSPO (arXiv 2507.18071). */
  readonly ratio: 'token' | 'sequence';
  readonly objective: Objective;
  /** log r is clamped to [−c, c]; outside, its gradient is 0. verl: 20; upstream and TRL: null, no bound. */
  readonly logRatioClamp: number | null;
  readonly correction: SamplerCorrection | null;
  readonly aggregation: Aggregation;
  readonly kl: KlConfig | null;
}

/** Whole sequences, concatenated. All arrays [N]; values at masked tokens are never read. */
export interface LossBatch extends TokenLayout {
  /** log π of each token under the trained policy; the gradient is taken by these. */
  readonly logProbs: Float64Array;
  /** Denominator of the ratio: the policy before this step's first update, or the sampler's own log-probs if each batch is used once. */
  readonly oldLogProbs: Float64Array;
  /** A constant per token; `broadcastOverTokens` expands one per sequence. */
  readonly advantages: Float64Array;
  /** Under the frozen initial model; required for a KL penalty against it. */
  readonly referenceLogProbs?: Float64Array;
  /** As reported by the server while sampling; required for the correction. */
  readonly samplerLogProbs?: Float64Array;
}

export interface PolicyLoss {
  /** policyLoss + klLoss: this batch's share of the step's loss. The shares of all parts sum to the step's loss. */
  readonly loss: number;
  readonly policyLoss: number;
  /** Coefficient included. */
  readonly klLoss: number;
  /** dLoss / dlogProbs, exactly 0 where the mask is 0. [N] */
  readonly gradient: Float64Array;
  readonly metrics: LossMetrics;
}

/** One sequence of a batch: positions of its trained tokens, and the factor of their losses. */
interface Sequence {
  readonly positions: Int32Array;
  readonly weight: number;
}

/** @param counts of the whole optimiser step (`countTokens`, `sumCounts`); `batch` may be a part of it */
export function policyLoss(config: PolicyLossConfig, batch: LossBatch, counts: TokenCounts): PolicyLoss {
  checkColumns(config, batch);
  const { positions, starts } = trainedTokens(batch);
  checkCounts(starts, counts);
  const gradient = new Float64Array(batch.mask.length);
  const longest = starts.reduce((most, start, i) => Math.max(most, start - starts[Math.max(i - 1, 0)]!), 0);
  const ratios = new Float64Array(longest);
  const corrections = config.correction === null ? null : new Float64Array(longest);
  const klBatch = config.kl === null ? null : klBatchOf(config.kl, batch);
  const bounds = ratioBounds(config.objective);
  const sums = new LossSums();
  let policy = 0;
  let kl = 0;
  for (let i = 0; i < starts.length - 1; i++) {
    const length = starts[i + 1]! - starts[i]!;
    if (length === 0) continue;
    const sequence = { positions: positions.subarray(starts[i], starts[i + 1]), weight: tokenWeight(config.aggregation, length, counts) };
    sums.tokens += length;
    sums.sequences++;
    const logRatio = tokenRatios(config.logRatioClamp ?? Infinity, batch, sequence, ratios, sums);
    const sequenceRatio = config.ratio === 'sequence' ? Math.exp(logRatio / length) : null;
    if (sequenceRatio !== null) ratios.fill(sequenceRatio, 0, length);
    if (config.correction && corrections) correctionWeights(config.correction, batch, sequence, corrections, sums);
    const clipped = sums.below + sums.above;
    policy += sequence.weight * surrogate(bounds, batch, sequence, ratios, corrections, gradient, sums);
    if (sequenceRatio !== null) {
      sums.sequenceRatio += sequenceRatio;
      if (sums.below + sums.above > clipped) sums.clippedSequences++;
      if (!bounds.isWeight) spreadOverSequence(sequence, gradient);
    }
    if (config.logRatioClamp !== null && !bounds.isWeight) stopOutsideClamp(config.logRatioClamp, batch, sequence, gradient);
    if (config.kl && klBatch) {
      const estimates = addKlGradient(config.kl, klBatch, sequence.positions, sequence.weight * config.kl.coefficient, gradient);
      sums.kl += estimates;
      kl += sequence.weight * config.kl.coefficient * estimates;
    }
  }
  const metrics = sums.metrics({ sequenceRatio: config.ratio === 'sequence', correction: config.correction !== null, kl: config.kl !== null });
  return { loss: policy + kl, policyLoss: policy, klLoss: kl, gradient, metrics };
}

/** Fills r of the trained tokens, [length]; returns the sum of their (clamped) log r. */
function tokenRatios(limit: number, { logProbs, oldLogProbs }: LossBatch, { positions }: Sequence, ratios: Float64Array, sums: LossSums): number {
  let logRatios = 0;
  let total = 0;
  let { minRatio, maxRatio } = sums;
  for (let k = 0; k < positions.length; k++) {
    const t = positions[k]!;
    let logRatio = logProbs[t]! - oldLogProbs[t]!;
    if (logRatio > limit) logRatio = limit;
    else if (logRatio < -limit) logRatio = -limit;
    const ratio = Math.exp(logRatio);
    ratios[k] = ratio;
    logRatios += logRatio;
    total += ratio;
    if (ratio < minRatio) minRatio = ratio;
    if (ratio > maxRatio) maxRatio = ratio;
  }
  sums.logRatio += logRatios;
  sums.ratio += total;
  sums.minRatio = minRatio;
  sums.maxRatio = maxRatio;
  return logRatios;
}

/** Fills min(π_old / π_sampler, cap) of the trained tokens, [length]. */
function correctionWeights({ level, cap }: SamplerCorrection, batch: LossBatch, sequence: Sequence, corrections: Float64Array, sums: LossSums): void {
  const { oldLogProbs } = batch;
  const samplerLogProbs = batch.samplerLogProbs!;
  const { positions } = sequence;
  let logRatios = 0;
  for (let k = 0; k < positions.length; k++) logRatios += oldLogProbs[positions[k]!]! - samplerLogProbs[positions[k]!]!;
  const ofSequence = Math.exp(logRatios);
  let [total, truncated] = [0, 0];
  let { minCorrection, maxCorrection } = sums;
  for (let k = 0; k < positions.length; k++) {
    const t = positions[k]!;
    const ratio = level === 'sequence' ? ofSequence : Math.exp(oldLogProbs[t]! - samplerLogProbs[t]!);
    const weight = ratio > cap ? cap : ratio;
    if (ratio >= cap) truncated++;
    corrections[k] = weight;
    total += weight;
    if (weight < minCorrection) minCorrection = weight;
    if (weight > maxCorrection) maxCorrection = weight;
  }
  sums.mismatch -= logRatios;
  sums.correction += total;
  sums.truncated += truncated;
  sums.minCorrection = minCorrection;
  sums.maxCorrection = maxCorrection;
}

/** Every objective is −c A, where c is the ratio within bounds that depend on the sign of A. */
interface RatioBounds {
  readonly lowIfNegative: number;
  readonly highIfNegative: number;
  readonly lowIfPositive: number;
  readonly highIfPositive: number;
  /** c is a constant weight of A log π (CISPO), not a function of log π whose gradient is 0 outside the bounds. */
  readonly isWeight: boolean;
}

function ratioBounds(objective: Objective): RatioBounds {
  switch (objective.kind) {
    case 'clip': {
      const { clipLow, clipHigh, dualClip } = objective;
      const negative = { lowIfNegative: 1 - clipLow, highIfNegative: dualClip ?? Infinity };
      return { ...negative, lowIfPositive: 0, highIfPositive: 1 + clipHigh, isWeight: false };
    }
    case 'cispo': {
      const { ratioMin: low, ratioMax: high } = objective;
      return { lowIfNegative: low, highIfNegative: high, lowIfPositive: low, highIfPositive: high, isWeight: true };
    }
    default:
      return { lowIfNegative: 0, highIfNegative: Infinity, lowIfPositive: 0, highIfPositive: Infinity, isWeight: false };
  }
}

/**
 * Writes each trained token's gradient, weight included, as if its ratio depended only on its own log-prob; returns the sum of the token losses.
 * @param ratios of each trained token, [length]; a sequence ratio is repeated
 */
function surrogate(
  bounds: RatioBounds,
  { logProbs, advantages }: LossBatch,
  { positions, weight }: Sequence,
  ratios: Float64Array,
  corrections: Float64Array | null,
  gradient: Float64Array,
  sums: LossSums,
): number {
  const { lowIfNegative, highIfNegative, lowIfPositive, highIfPositive, isWeight } = bounds;
  let sum = 0;
  let [below, above, dual] = [0, 0, 0];
  for (let k = 0; k < positions.length; k++) {
    const t = positions[k]!;
    const advantage = advantages[t]!;
    const ratio = ratios[k]!;
    const low = advantage < 0 ? lowIfNegative : lowIfPositive;
    const high = advantage < 0 ? highIfNegative : highIfPositive;
    let used = ratio;
    let isInside = true; // also for a NaN ratio: it must not be hidden
    if (ratio < low) {
      used = low;
      isInside = false;
      below++;
    } else if (ratio > high) {
      used = high;
      isInside = false;
      if (isWeight || advantage > 0) above++;
      else if (advantage < 0) dual++;
    }
    const slope = -used * advantage * (corrections === null ? 1 : corrections[k]!);
    sum += isWeight ? slope * logProbs[t]! : slope;
    if (isWeight || isInside) gradient[t] = weight * slope;
  }
  sums.below += below;
  sums.above += above;
  sums.dual += dual;
  return sum;
}

/** A sequence ratio depends on the mean of its n log-probs, so every trained token gets the mean gradient. */
function spreadOverSequence({ positions }: Sequence, gradient: Float64Array): void {
  let sum = 0;
  for (const t of positions) sum += gradient[t]!;
  for (const t of positions) gradient[t] = sum / positions.length;
}

/** A log-ratio outside its clamp has no gradient. */
function stopOutsideClamp(limit: number, { logProbs, oldLogProbs }: LossBatch, { positions }: Sequence, gradient: Float64Array): void {
  for (const t of positions) if (Math.abs(logProbs[t]! - oldLogProbs[t]!) > limit) gradient[t] = 0;
}

function klBatchOf({ against }: KlConfig, { logProbs, oldLogProbs, referenceLogProbs }: LossBatch): KlBatch {
  return { logProbs, referenceLogProbs: against === 'old' ? oldLogProbs : referenceLogProbs! };
}

function checkColumns(config: PolicyLossConfig, batch: LossBatch): void {
  const size = batch.mask.length;
  const needed = ['logProbs', 'oldLogProbs', 'advantages'] as const;
  const optional = [config.kl?.against === 'reference' && 'referenceLogProbs', config.correction && 'samplerLogProbs'] as const;
  for (const name of [...needed, ...optional]) {
    if (name && batch[name]?.length !== size)
      throw new RangeError(`The mask has ${size} tokens, but ${name} has ${batch[name]?.length ?? 'no values'}`);
  }
  const { offsets } = batch;
  if (offsets[0] !== 0 || offsets.at(-1) !== size || offsets.some((start, i) => i > 0 && start < offsets[i - 1]!)) {
    throw new RangeError(`offsets must rise from 0 to the mask's length, ${size}, got ${offsets.slice(0, 8).join(', ')}`);
  }
}
