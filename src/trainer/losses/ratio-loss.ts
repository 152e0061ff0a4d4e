/**
 * Losses on the importance ratio, and their gradient by the log-prob of every token: PPO, GRPO, DAPO, Dr. GRPO, GSPO, CISPO, importance sampling, REINFORCE.
 * The configuration chooses the level of the ratio, the objective, the sampler correction, the aggregation, the KL penalty and the entropy bonus; the
 * table in README.md lists the papers' combinations. Losses are minimised. Pure, in float64, without state between calls.
 */
import { type Aggregation, tokenWeight } from './aggregation.ts';
import { addKlGradient, type KlConfig } from './kl.ts';
import { RatioSums } from './ratio-sums.ts';
import { correctionWeights, type SamplerCorrection } from './sampler-correction.ts';
import { checkLayout, lengthOf } from './token-counts.ts';
import { checkColumns, type LossNeeds, type TokenCounts, type TokenLoss, type TokenLossBatch, type TokenLossValue } from '../token-loss.ts';

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

export interface RatioLossConfig {
  /** r per token, or one per sequence, exp(mean of log r over its trained tokens): GSPO (arXiv 2507.18071). */
  readonly ratio: 'token' | 'sequence';
  readonly objective: Objective;
  /** log r is clamped to [−c, c]; outside, its gradient is 0. verl: 20; upstream and TRL: null, no bound. */
  readonly logRatioClamp: number | null;
  /** Upper bound of the mean log r of a sequence; above it, the gradient is 0. Only for `ratio: 'sequence'`. verl and DDAI: 10. @default null, no bound */
  readonly sequenceLogRatioMax?: number | null;
  readonly correction: SamplerCorrection | null;
  readonly aggregation: Aggregation;
  readonly kl: KlConfig | null;
  /**
   * Weight of the entropy bonus, at least 0: subtracts coefficient · entropy, aggregated as the policy term, so that a policy of high entropy is rewarded.
   * Needs the entropy of whole distributions and its gradient. Search-R1: 0.001. @default 0
   */
  readonly entropyCoefficient?: number;
}

type Columns = Required<Pick<TokenLossBatch, 'logProbs' | 'oldLogProbs' | 'advantages'>> & TokenLossBatch;

/** One sequence of a batch: its tokens and the factor of their losses. */
interface Sequence {
  readonly start: number;
  readonly end: number;
  readonly weight: number;
}

export function ratioLoss(config: RatioLossConfig): TokenLoss {
  const needs: LossNeeds = {
    old: true,
    reference: config.kl?.against === 'reference',
    sampler: config.correction !== null,
    entropy: (config.entropyCoefficient ?? 0) > 0,
  };
  return {
    needs,
    ignoresZeroAdvantages: config.kl === null && needs.entropy === false,
    evaluate(batch, counts) {
      checkColumns(needs, batch);
      checkLayout(batch, counts);
      return evaluate(config, batch as Columns, counts);
    },
  };
}

function evaluate(config: RatioLossConfig, batch: Columns, counts: TokenCounts): TokenLossValue {
  const { offsets, logProbs, oldLogProbs } = batch;
  const size = logProbs.length;
  const gradient = new Float64Array(size);
  const ratios = new Float64Array(size);
  const corrections = config.correction === null ? null : new Float64Array(size);
  const reference = config.kl?.against === 'old' ? oldLogProbs : batch.referenceLogProbs;
  const entropyCoefficient = config.entropyCoefficient ?? 0;
  const dEntropy = entropyCoefficient > 0 ? new Float64Array(size) : null;
  const bounds = ratioBounds(config.objective);
  const sums = new RatioSums();
  for (let i = 0; i < offsets.length - 1; i++) {
    const [start, end] = [offsets[i]!, offsets[i + 1]!];
    const length = end - start;
    if (length === 0) continue;
    const sequence = { start, end, weight: tokenWeight(config.aggregation, lengthOf(batch, i), counts) };
    sums.tokens += length;
    sums.sequences++;
    const logRatio = tokenRatios(config.logRatioClamp ?? Infinity, batch, sequence, ratios, sums);
    const isBeyond = logRatio / length > (config.sequenceLogRatioMax ?? Infinity);
    const sequenceRatio = config.ratio === 'sequence' ? Math.exp(isBeyond ? config.sequenceLogRatioMax! : logRatio / length) : null;
    if (sequenceRatio !== null) ratios.fill(sequenceRatio, start, end);
    if (config.correction && corrections) correctionWeights(config.correction, batch, sequence, corrections, sums);
    const clipped = sums.below + sums.above;
    sums.policyLoss += sequence.weight * surrogate(bounds, batch, sequence, { ratios, corrections, gradient, sums });
    if (sequenceRatio !== null) {
      sums.sequenceRatio += sequenceRatio;
      if (sums.below + sums.above > clipped) sums.clippedSequences++;
      if (!bounds.isWeight) spreadOverSequence(sequence, gradient);
      if (isBeyond && !bounds.isWeight) gradient.fill(0, start, end);
    }
    if (config.logRatioClamp !== null && !bounds.isWeight) stopOutsideClamp(config.logRatioClamp, batch, sequence, gradient);
    if (config.kl) {
      const scale = sequence.weight * config.kl.coefficient;
      const estimates = addKlGradient(config.kl, { logProbs, referenceLogProbs: reference! }, [start, end], scale, gradient);
      sums.kl += estimates;
      sums.klLoss += scale * estimates;
    }
    if (dEntropy) {
      const slope = -entropyCoefficient * sequence.weight;
      for (let t = start; t < end; t++) sums.entropyLoss += slope * batch.entropy![t]!;
      dEntropy.fill(slope, start, end);
    }
  }
  const metrics = sums.metrics({
    sequenceRatio: config.ratio === 'sequence',
    correction: config.correction !== null,
    kl: config.kl !== null,
    entropy: dEntropy !== null,
  });
  return { loss: sums.policyLoss + sums.klLoss + sums.entropyLoss, gradient, metrics, ...(dEntropy === null ? {} : { dEntropy }) };
}

/** Fills r of the sequence's tokens; returns the sum of their (clamped) log r. */
function tokenRatios(limit: number, { logProbs, oldLogProbs }: Columns, { start, end }: Sequence, ratios: Float64Array, sums: RatioSums): number {
  let logRatios = 0;
  let total = 0;
  let { minRatio, maxRatio } = sums;
  for (let t = start; t < end; t++) {
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

interface Working {
  /** Of each token, [N]; a sequence ratio is repeated. */
  readonly ratios: Float64Array;
  readonly corrections: Float64Array | null;
  readonly gradient: Float64Array;
  readonly sums: RatioSums;
}

/** Writes each token's gradient, weight included, as if its ratio depended only on its own log-prob; returns the sum of the token losses. */
function surrogate(
  bounds: RatioBounds,
  { logProbs, advantages }: Columns,
  { start, end, weight }: Sequence,
  { ratios, corrections, gradient, sums }: Working,
): number {
  const { lowIfNegative, highIfNegative, lowIfPositive, highIfPositive, isWeight } = bounds;
  let sum = 0;
  let [below, above, dual] = [0, 0, 0];
  for (let t = start; t < end; t++) {
    const advantage = advantages[t]!;
    const ratio = ratios[t]!;
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
    const slope = -used * advantage * (corrections === null ? 1 : corrections[t]!);
    sum += isWeight ? slope * logProbs[t]! : slope;
    if (isWeight || isInside) gradient[t] = weight * slope;
  }
  sums.below += below;
  sums.above += above;
  sums.dual += dual;
  return sum;
}

/** A sequence ratio depends on the mean of its n log-probs, so every trained token gets the mean gradient. */
function spreadOverSequence({ start, end }: Sequence, gradient: Float64Array): void {
  let sum = 0;
  for (let t = start; t < end; t++) sum += gradient[t]!;
  gradient.fill(sum / (end - start), start, end);
}

/** A log-ratio outside its clamp has no gradient. */
function stopOutsideClamp(limit: number, { logProbs, oldLogProbs }: Columns, { start, end }: Sequence, gradient: Float64Array): void {
  for (let t = start; t < end; t++) if (Math.abs(logProbs[t]! - oldLogProbs[t]!) > limit) gradient[t] = 0;
}
