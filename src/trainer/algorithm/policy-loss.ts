/**
 * Losses on the ratio of probabilities, and their gradient by the log-prob of every token: PPO, GRPO, DAPO, Dr. GRPO, GSPO, CISPO, importance
 * sampling. One configuration names the level of the ratio, the objective, the correction for the sampler, the aggregation and the KL penalty; the table
 * in README.md gives the papers' combinations. Minimised; float64; no I/O; nothing is kept between calls.
 */
import { type Aggregation, sequenceWeights } from './aggregation.ts';
import { addKlGradient, type KlBatch, type KlConfig } from './kl.ts';
import { type LossMetrics, LossSums } from './loss-metrics.ts';
import { countTokens, type TokenCounts, type TokenLayout, trainedLengths } from './token-mask.ts';

export type Objective =
  /**
   * −min(r A, clip(r, 1 − clipLow, 1 + clipHigh) A): PPO (arXiv 1707.06347). clipHigh > clipLow is DAPO's clip-higher (arXiv 2503.14476).
   * `dualClip` c > 1 also bounds it by −c A where A < 0 (arXiv 1912.09729); null for none.
   */
  | { readonly kind: 'clip'; readonly clipLow: number; readonly clipHigh: number; readonly dualClip: number | null }
  /** −sg(clip(r, ratioMin, ratioMax)) A log π: CISPO (arXiv 2506.13585). Bounds of the ratio itself; every token keeps a gradient. */
  | { readonly kind: 'cispo'; readonly ratioMin: number; readonly ratioMax: number }
  /** −r A, without bounds. */
  | { readonly kind: 'importance_sampling' };

/**
 * Truncated importance sampling (TIS, "Your efficient RL framework secretly brings you off-policy RL training", 2025): the policy term of a token times
 * min(π_old / π_sampler, cap), a constant, because the server that sampled is not bit for bit the trainer. Never multiplies the KL term.
 */
export interface SamplerCorrection {
  /** The ratio of each token, or the product over the trained tokens of the sequence. */
  readonly level: 'token' | 'sequence';
  readonly cap: number;
}

export interface PolicyLossConfig {
  /** r per token, or one per sequence, exp(mean of log r over its trained tokens): GSPO (arXiv 2507.18071). */
  readonly ratio: 'token' | 'sequence';
  readonly objective: Objective;
  /** log r is kept within [−c, c], its gradient 0 outside. verl: 20; upstream and TRL: null, no bound. */
  readonly logRatioClamp: number | null;
  readonly correction: SamplerCorrection | null;
  readonly aggregation: Aggregation;
  readonly kl: KlConfig | null;
}

/** Whole sequences, one after another. All arrays [N]; values at masked tokens are never read. */
export interface LossBatch extends TokenLayout {
  /** log π of each token under the policy that is trained: what the gradient is taken by. */
  readonly logProbs: Float64Array;
  /** The ratio's denominator: under the policy before this step's first update, or the sampler's own where each batch is used once. */
  readonly oldLogProbs: Float64Array;
  /** A constant per token; `broadcastOverTokens` makes it of one per sequence. */
  readonly advantages: Float64Array;
  /** Under the frozen initial model; needed by a KL penalty against it. */
  readonly referenceLogProbs?: Float64Array;
  /** As the server reported them while sampling; needed by the correction. */
  readonly samplerLogProbs?: Float64Array;
}

export interface PolicyLoss {
  /** This batch's share of the step's loss: the shares of all parts add up to it. policyLoss + klLoss. */
  readonly loss: number;
  readonly policyLoss: number;
  /** Coefficient included. */
  readonly klLoss: number;
  /** dLoss / dlogProbs, exactly 0 where the mask is 0. [N] */
  readonly gradient: Float64Array;
  readonly metrics: LossMetrics;
}

/** One sequence of a batch: tokens [start, end), `length` of them trained, each weighing `weight` in the loss. */
interface Sequence {
  readonly start: number;
  readonly end: number;
  readonly length: number;
  readonly weight: number;
}

/** @param counts of the whole optimiser step (`countTokens`, `sumCounts`), of which `batch` may be a part */
export function policyLoss(config: PolicyLossConfig, batch: LossBatch, counts: TokenCounts): PolicyLoss {
  checkBatch(config, batch, counts);
  const size = batch.mask.length;
  const lengths = trainedLengths(batch);
  const weights = sequenceWeights(config.aggregation, lengths, counts);
  const gradient = new Float64Array(size);
  const ratios = new Float64Array(size);
  const corrections = config.correction === null ? null : new Float64Array(size);
  const klBatch = config.kl === null ? null : klBatchOf(config.kl, batch);
  const bounds = ratioBounds(config.objective);
  const sums = new LossSums();
  let policy = 0;
  let kl = 0;
  for (let i = 0; i < lengths.length; i++) {
    if (lengths[i] === 0) continue;
    const sequence = { start: batch.offsets[i]!, end: batch.offsets[i + 1]!, length: lengths[i]!, weight: weights[i]! };
    sums.tokens += sequence.length;
    sums.sequences++;
    const logRatio = tokenRatios(config.logRatioClamp ?? Infinity, batch, sequence, ratios, sums);
    if (config.ratio === 'sequence') ratios.fill(Math.exp(logRatio / sequence.length), sequence.start, sequence.end);
    if (config.correction && corrections) correctionWeights(config.correction, batch, sequence, corrections, sums);
    const clipped = sums.below + sums.above;
    policy += sequence.weight * surrogate(bounds, batch, sequence, ratios, corrections, gradient, sums);
    if (config.ratio === 'sequence') {
      sums.sequenceRatio += ratios[sequence.start]!;
      if (sums.below + sums.above > clipped) sums.clippedSequences++;
      if (!bounds.isWeight) spreadOverSequence(batch.mask, sequence, gradient);
    }
    if (config.logRatioClamp !== null && !bounds.isWeight) stopOutsideClamp(config.logRatioClamp, batch, sequence, gradient);
    if (config.kl && klBatch) {
      const estimates = addKlGradient(config.kl, klBatch, sequence.weight * config.kl.coefficient, sequence.start, sequence.end, gradient);
      sums.kl += estimates;
      kl += sequence.weight * config.kl.coefficient * estimates;
    }
  }
  const metrics = sums.metrics({ sequenceRatio: config.ratio === 'sequence', correction: config.correction !== null, kl: config.kl !== null });
  return { loss: policy + kl, policyLoss: policy, klLoss: kl, gradient, metrics };
}

/** Fills r of the trained tokens; returns the sum of their (clamped) log r. */
function tokenRatios(limit: number, batch: LossBatch, { start, end }: Sequence, ratios: Float64Array, sums: LossSums): number {
  const { mask, logProbs, oldLogProbs } = batch;
  let [logRatios, total] = [0, 0];
  let { minRatio, maxRatio } = sums;
  for (let t = start; t < end; t++) {
    if (mask[t] === 0) continue;
    let logRatio = logProbs[t]! - oldLogProbs[t]!;
    if (logRatio > limit) logRatio = limit;
    else if (logRatio < -limit) logRatio = -limit;
    const ratio = Math.exp(logRatio);
    ratios[t] = ratio;
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

/** Fills min(π_old / π_sampler, cap) of the trained tokens. */
function correctionWeights({ level, cap }: SamplerCorrection, batch: LossBatch, sequence: Sequence, corrections: Float64Array, sums: LossSums): void {
  const { mask, oldLogProbs } = batch;
  const samplerLogProbs = batch.samplerLogProbs!;
  const { start, end } = sequence;
  let total = 0;
  for (let t = start; t < end; t++) if (mask[t] !== 0) total += oldLogProbs[t]! - samplerLogProbs[t]!;
  sums.mismatch -= total;
  const ofSequence = Math.exp(total);
  for (let t = start; t < end; t++) {
    if (mask[t] === 0) continue;
    const ratio = level === 'sequence' ? ofSequence : Math.exp(oldLogProbs[t]! - samplerLogProbs[t]!);
    const weight = ratio > cap ? cap : ratio;
    if (ratio >= cap) sums.truncated++;
    corrections[t] = weight;
    sums.correction += weight;
    if (weight < sums.minCorrection) sums.minCorrection = weight;
    if (weight > sums.maxCorrection) sums.maxCorrection = weight;
  }
}

/** Every objective is −c A, c the ratio within bounds that depend on the sign of A. */
interface RatioBounds {
  readonly lowIfNegative: number;
  readonly highIfNegative: number;
  readonly lowIfPositive: number;
  readonly highIfPositive: number;
  /** c is a constant weight of A log π (CISPO), and not a function of log π whose gradient ends at the bounds. */
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

/** Writes each trained token's own gradient, weight included, as if its log-prob alone moved its ratio; returns the sum of the token losses. */
function surrogate(
  bounds: RatioBounds,
  { mask, logProbs, advantages }: LossBatch,
  { start, end, weight }: Sequence,
  ratios: Float64Array,
  corrections: Float64Array | null,
  gradient: Float64Array,
  sums: LossSums,
): number {
  const { lowIfNegative, highIfNegative, lowIfPositive, highIfPositive, isWeight } = bounds;
  let sum = 0;
  let [below, above, dual] = [0, 0, 0];
  for (let t = start; t < end; t++) {
    if (mask[t] === 0) continue;
    const advantage = advantages[t]!;
    const ratio = ratios[t]!;
    const low = advantage < 0 ? lowIfNegative : lowIfPositive;
    const high = advantage < 0 ? highIfNegative : highIfPositive;
    let used = ratio;
    let isInside = true; // of a ratio that is NaN too: what is broken must show
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
    const slope = -used * advantage * (corrections === null ? 1 : corrections[t]!);
    if (isWeight) {
      sum += slope * logProbs[t]!;
      gradient[t] = weight * slope;
    } else {
      sum += slope;
      if (isInside) gradient[t] = weight * slope;
    }
  }
  sums.below += below;
  sums.above += above;
  sums.dual += dual;
  return sum;
}

/** A sequence's ratio moves by 1/n of the move of each of its n log-probs: every trained token gets the mean. */
function spreadOverSequence(mask: Uint8Array, { start, end, length }: Sequence, gradient: Float64Array): void {
  let sum = 0;
  for (let t = start; t < end; t++) if (mask[t] !== 0) sum += gradient[t]!;
  for (let t = start; t < end; t++) if (mask[t] !== 0) gradient[t] = sum / length;
}

/** A log-ratio outside its clamp moves nothing. */
function stopOutsideClamp(limit: number, { mask, logProbs, oldLogProbs }: LossBatch, { start, end }: Sequence, gradient: Float64Array): void {
  for (let t = start; t < end; t++) if (mask[t] !== 0 && Math.abs(logProbs[t]! - oldLogProbs[t]!) > limit) gradient[t] = 0;
}

function klBatchOf({ against }: KlConfig, { mask, logProbs, oldLogProbs, referenceLogProbs }: LossBatch): KlBatch {
  return { mask, logProbs, referenceLogProbs: against === 'old' ? oldLogProbs : referenceLogProbs! };
}

function checkBatch(config: PolicyLossConfig, batch: LossBatch, counts: TokenCounts): void {
  const size = batch.mask.length;
  const needed = ['logProbs', 'oldLogProbs', 'advantages'] as const;
  const optional = [config.kl?.against === 'reference' && 'referenceLogProbs', config.correction && 'samplerLogProbs'] as const;
  for (const name of [...needed, ...optional]) {
    if (name && batch[name]?.length !== size)
      throw new RangeError(`Expected ${size} ${name}, one per mask entry, got ${batch[name]?.length ?? 'none'}`);
  }
  const { offsets } = batch;
  if (offsets[0] !== 0 || offsets.at(-1) !== size || offsets.some((start, i) => i > 0 && start < offsets[i - 1]!)) {
    throw new RangeError(`Expected offsets that rise from 0 to ${size}, the mask's length, got ${offsets.slice(0, 8).join(', ')}`);
  }
  const own = countTokens(batch);
  for (const key of ['tokens', 'sequences', 'trainedSequences'] as const) {
    if (!(own[key] <= counts[key])) throw new RangeError(`Expected counts of the whole step, at least ${own[key]} ${key}, got ${counts[key]}`);
  }
}
