/**
 * One optimiser step: forward and backward over a minibatch in micro-batches. Losses are divided by the counts of the whole minibatch, so packing
 * affects only rounding.
 */
import { GradientError } from '../../core/errors.ts';
import type { AdamOptions, GradientBackend } from '../gradients/gradient-backend.ts';
import { entropyBonus } from '../losses/entropy-bonus.ts';
import { type LossMetrics, mergeLossMetrics } from '../losses/loss-metrics.ts';
import { type PolicyLoss, policyLoss, type PolicyLossConfig } from '../losses/policy-loss.ts';
import { broadcastOverTokens, type TokenCounts } from '../losses/token-mask.ts';
import type { TrainingSequence } from '../credit/form-groups.ts';
import { type MicroBatch, packBatches } from './pack-batches.ts';
import type { PhaseTimer } from './phase-timer.ts';
import type { TokenBudget } from './token-budget.ts';

/** A sequence with the old and reference log-probs that its loss needs. */
export interface LossSequence extends TrainingSequence {
  /** Denominator of the ratio; null uses the log-probs of the current pass, so that the ratio is 1. [M] */
  readonly oldLogProbs: Float64Array | null;
  /** Under the policy at the start of the run; null if no KL penalty needs it. [M] */
  readonly referenceLogProbs: Float64Array | null;
}

export interface OptimizerStepOptions {
  readonly backend: GradientBackend;
  readonly loss: PolicyLossConfig;
  readonly entropyCoefficient: number;
  readonly adam: AdamOptions;
  readonly budget: TokenBudget;
  readonly temperature: number;
  /** Version being trained; sequences sampled by it show how much server and trainer differ. Null once the weights were updated. */
  readonly version: number | null;
  readonly timer: PhaseTimer;
  readonly signal: AbortSignal;
}

export interface OptimizerStep {
  /** `empty`: no token has a loss. `not_finite`: a log-prob, the loss or the gradient is NaN or infinite, and no weight changed. */
  readonly outcome: 'applied' | 'empty' | 'not_finite';
  readonly loss: number;
  readonly policyLoss: number;
  readonly klLoss: number;
  readonly entropyLoss: number;
  /** Null if no Adam step was attempted. */
  readonly gradNorm: number | null;
  readonly metrics: LossMetrics | null;
  readonly microBatches: number;
  readonly trainedTokens: number;
  readonly forwardedTokens: number;
  readonly difference: LogProbDifference;
}

/** |log π trainer − log π server| over tokens sampled by the version being trained. */
export interface LogProbDifference {
  readonly tokens: number;
  readonly sum: number;
  readonly max: number;
}

const NOTHING: OptimizerStep = {
  outcome: 'empty',
  loss: 0,
  policyLoss: 0,
  klLoss: 0,
  entropyLoss: 0,
  gradNorm: null,
  metrics: null,
  microBatches: 0,
  trainedTokens: 0,
  forwardedTokens: 0,
  difference: { tokens: 0, sum: 0, max: 0 },
};

export async function optimizerStep(sequences: readonly LossSequence[], options: OptimizerStepOptions): Promise<OptimizerStep> {
  const counts = countSequences(sequences);
  const forwarded = sequences.filter((sequence) => needsForward(sequence, options));
  if (counts.tokens === 0 || forwarded.length === 0) return NOTHING;
  const { backend, adam, timer } = options;
  await backend.zeroGrad();
  const sum = await accumulate(forwarded, counts, options).catch((error: unknown) => {
    if (!(error instanceof GradientError) || error.code !== 'not_finite') throw error;
    return { ...NOTHING, outcome: 'not_finite' as const };
  });
  if (sum.outcome !== 'applied') {
    await backend.zeroGrad();
    return sum;
  }
  const { gradNorm, skipped } = await timer.measure('update', () => backend.optimStep(adam));
  return { ...sum, gradNorm, outcome: skipped ? 'not_finite' : 'applied' };
}

/** A sequence with advantage 0 has no gradient, unless a KL penalty or an entropy bonus gives it one. */
function needsForward({ targets, advantage }: LossSequence, { loss, entropyCoefficient }: OptimizerStepOptions): boolean {
  return targets.length > 0 && (advantage !== 0 || loss.kl !== null || entropyCoefficient > 0);
}

function countSequences(sequences: readonly TrainingSequence[]): TokenCounts {
  return {
    tokens: sequences.reduce((sum, { targets }) => sum + targets.length, 0),
    sequences: sequences.length,
    trainedSequences: sequences.filter(({ targets }) => targets.length > 0).length,
  };
}

/** Accumulates all gradients of the step; restarts with smaller micro-batches if memory runs out. */
async function accumulate(sequences: readonly LossSequence[], counts: TokenCounts, options: OptimizerStepOptions): Promise<OptimizerStep> {
  const { backend, budget, temperature } = options;
  const packable = sequences.map(({ trajectory, targets }) => ({ ids: trajectory.ids, targets }));
  for (;;) {
    const parts: MicroStep[] = [];
    let isSmaller = false;
    for (const micro of packBatches(packable, budget.tokens, temperature)) {
      const part = await budget.attempt(micro, () => microStep(micro, sequences, counts, options));
      if (part?.isFinite === false) return { ...total([...parts, part]), outcome: 'not_finite' };
      if (part === null) {
        isSmaller = true;
        break;
      }
      parts.push(part);
    }
    if (!isSmaller) return total(parts);
    await backend.zeroGrad();
  }
}

interface MicroStep {
  readonly isFinite: boolean;
  readonly part: PolicyLoss;
  readonly entropyLoss: number;
  readonly targets: number;
  readonly tokens: number;
  readonly difference: LogProbDifference;
}

async function microStep(
  micro: MicroBatch,
  sequences: readonly LossSequence[],
  counts: TokenCounts,
  { backend, loss, entropyCoefficient, version, timer, signal }: OptimizerStepOptions,
): Promise<MicroStep> {
  const members = micro.members.map((member) => sequences[member]!);
  const layout = { offsets: micro.targetOffsets, mask: new Uint8Array(micro.batch.targets.length).fill(1) };
  const entropy = entropyCoefficient > 0;
  const forward = await timer.measure('forward', () => backend.forward(micro.batch, { retain: true, adapter: 'on', entropy, signal }));
  const logProbs = Float64Array.from(forward.logProbs);
  const part = policyLoss(
    loss,
    {
      ...layout,
      logProbs,
      oldLogProbs: concatenate(members, (member, i) => member.oldLogProbs ?? logProbs.subarray(layout.offsets[i], layout.offsets[i + 1])),
      samplerLogProbs: concatenate(members, (member) => member.logProbs),
      advantages: broadcastOverTokens(
        members.map(({ advantage }) => advantage),
        layout.offsets,
      ),
      ...(members[0]!.referenceLogProbs === null ? {} : { referenceLogProbs: concatenate(members, (member) => member.referenceLogProbs!) }),
    },
    counts,
  );
  const bonus = entropy
    ? entropyBonus({ ...layout, entropy: Float64Array.from(forward.entropy!) }, entropyCoefficient, loss.aggregation, counts)
    : { loss: 0, dEntropy: null };
  const step = {
    part,
    entropyLoss: bonus.loss,
    targets: micro.batch.targets.length,
    tokens: micro.batch.ids.length,
    difference: differenceOf(members, logProbs, layout.offsets, version),
  };
  if (!Number.isFinite(part.loss + bonus.loss) || !part.gradient.every(Number.isFinite)) {
    await backend.drop(forward.batchId);
    return { ...step, isFinite: false };
  }
  const gradient = {
    dLogProbs: Float32Array.from(part.gradient),
    ...(bonus.dEntropy === null ? {} : { dEntropy: Float32Array.from(bonus.dEntropy) }),
  };
  await timer.measure('backward', () => backend.backward(forward.batchId, gradient));
  return { ...step, isFinite: true };
}

function differenceOf(members: readonly LossSequence[], logProbs: Float64Array, offsets: Int32Array, version: number | null): LogProbDifference {
  let [tokens, sum, max] = [0, 0, 0];
  for (const [i, member] of members.entries()) {
    if (member.trajectory.policy.version !== version) continue;
    const ours = logProbs.subarray(offsets[i], offsets[i + 1]);
    for (let k = 0; k < ours.length; k++) {
      const difference = Math.abs(ours[k]! - member.logProbs[k]!);
      sum += difference;
      max = Math.max(max, difference);
    }
    tokens += ours.length;
  }
  return { tokens, sum, max };
}

function total(parts: readonly MicroStep[]): OptimizerStep {
  const sum = (value: (part: MicroStep) => number) => parts.reduce((all, part) => all + value(part), 0);
  const [policy, kl, entropyLoss] = [sum(({ part }) => part.policyLoss), sum(({ part }) => part.klLoss), sum((part) => part.entropyLoss)];
  return {
    outcome: 'applied',
    loss: policy + kl + entropyLoss,
    policyLoss: policy,
    klLoss: kl,
    entropyLoss,
    gradNorm: null,
    metrics: mergeLossMetrics(parts.map(({ part }) => part.metrics)),
    microBatches: parts.length,
    trainedTokens: sum(({ targets }) => targets),
    forwardedTokens: sum(({ tokens }) => tokens),
    difference: {
      tokens: sum(({ difference }) => difference.tokens),
      sum: sum(({ difference }) => difference.sum),
      max: parts.reduce((most, { difference }) => Math.max(most, difference.max), 0),
    },
  };
}

function concatenate(members: readonly LossSequence[], part: (member: LossSequence, i: number) => Float64Array): Float64Array {
  const parts = members.map(part);
  const all = new Float64Array(parts.reduce((length, { length: own }) => length + own, 0));
  let at = 0;
  for (const values of parts) {
    all.set(values, at);
    at += values.length;
  }
  return all;
}
