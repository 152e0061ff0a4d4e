/**
 * One optimiser step: forward and backward over a minibatch in micro-batches. Every loss is divided by its own counts of the whole minibatch, so packing
 * affects only rounding. A sequence whose log-probs or gradient are not finite is dropped; the others go on.
 */
import { GradientError } from '../../core/errors.ts';
import type { TrainingSequence } from '../credit.ts';
import type { AdamOptions } from '../../core/adam-options.ts';
import { mergeLossMetrics } from '../losses/loss-metrics.ts';
import type { LossTerm } from '../token-loss.ts';
import { type Evaluated, evaluateTerms, takes, type TermCounts, termCounts, type TermValues } from './evaluate-terms.ts';
import { halves, type PassOptions } from '../gradients/log-prob-pass.ts';
import { type MicroBatch, microBatchOf, packBatches } from '../gradients/pack-batches.ts';
import type { PhaseClock } from './phase-clock.ts';
import type { MeasuredSequence } from './update-shift.ts';

export interface OptimizerStepOptions extends PassOptions {
  readonly terms: readonly LossTerm[];
  readonly adam: AdamOptions;
  /** Version being trained; sequences sampled by it show how much server and trainer differ. Null once the weights were updated. */
  readonly version: number | null;
  readonly timer: PhaseClock;
  /** The weights do not change if a loss measures a larger KL(π_old || π), its metric `approx_kl`, in nats per token. @default null: any */
  readonly skipKl?: number | null;
  /** Called before the weights change. @default ignored */
  readonly onUpdate?: () => Promise<void>;
}

export interface OptimizerStep {
  /**
   * `empty`: no token has a loss. `not_finite`: every sequence was dropped, or the gradient is NaN or infinite, and no weight changed. `diverged`: no weight changed
   * either, because the KL was above `skipKl`.
   */
  readonly outcome: 'applied' | 'empty' | 'not_finite' | 'diverged';
  readonly values: TermValues;
  /** Null if no Adam step was attempted. */
  readonly gradNorm: number | null;
  readonly microBatches: number;
  readonly trainedTokens: number;
  readonly forwardedTokens: number;
  /** Sequences without finite log-probs or gradient. */
  readonly dropped: number;
  /** Names of the losses whose gradient was not finite. */
  readonly brokenLosses: readonly string[];
  readonly difference: LogProbDifference;
  /** The log-probs of the sequences under the weights before the first update of the batch; empty after it. */
  readonly before: readonly MeasuredSequence[];
}

/** |log π trainer − log π server| over tokens sampled by the version being trained. */
interface LogProbDifference {
  readonly tokens: number;
  readonly sum: number;
  readonly max: number;
}

const NOTHING: OptimizerStep = {
  outcome: 'empty',
  values: { loss: 0, byTerm: new Map() },
  gradNorm: null,
  microBatches: 0,
  trainedTokens: 0,
  forwardedTokens: 0,
  dropped: 0,
  brokenLosses: [],
  difference: { tokens: 0, sum: 0, max: 0 },
  before: [],
};

/** @param dropped sequences of the step that were dropped before: they count in the divisors, as those do that are dropped here */
export async function optimizerStep(
  sequences: readonly TrainingSequence[],
  options: OptimizerStepOptions,
  dropped: readonly TrainingSequence[] = [],
): Promise<OptimizerStep> {
  const { backend, terms, adam, timer } = options;
  const counts = terms.map((term) => termCounts(term, [...sequences, ...dropped]));
  const forwarded = sequences.filter((sequence) => terms.some((term) => needsForward(sequence, term)));
  if (forwarded.length === 0) return NOTHING;
  await backend.zeroGrad();
  const sum = await accumulate(forwarded, counts, options);
  if (sum.dropped === forwarded.length) {
    await backend.zeroGrad();
    return { ...sum, outcome: 'not_finite' };
  }
  if (klOf(sum.values) > (options.skipKl ?? Infinity)) {
    await backend.zeroGrad();
    return { ...sum, outcome: 'diverged' };
  }
  await options.onUpdate?.();
  const { gradNorm, skipped } = await timer.measure('update', () => backend.optimStep(adam));
  return { ...sum, gradNorm, outcome: skipped ? 'not_finite' : 'applied' };
}

/** The largest KL(π_old || π) that a loss measured, in nats per token; 0 if none measures it. */
function klOf({ byTerm }: TermValues): number {
  return Math.max(0, ...[...byTerm.values()].map((metrics) => metrics['approx_kl']?.value ?? 0));
}

/** A sequence whose advantages are all 0 has no gradient, unless a KL penalty or an entropy bonus gives it one. */
function needsForward(sequence: TrainingSequence, term: LossTerm): boolean {
  if (sequence.targets.length === 0 || term.weight === 0 || !takes(term, sequence)) return false;
  return !term.loss.ignoresZeroAdvantages || sequence.advantages.some((advantage) => advantage !== 0);
}

/** Accumulates all gradients of the step; restarts with smaller micro-batches if memory runs out. */
async function accumulate(
  sequences: readonly TrainingSequence[],
  counts: readonly TermCounts[],
  options: OptimizerStepOptions,
): Promise<OptimizerStep> {
  const { backend, budget, temperature } = options;
  for (;;) {
    const parts: MicroStep[] = [];
    let isSmaller = false;
    for (const micro of packBatches(sequences, budget.tokens, temperature)) {
      const part = await budget.attempt(micro, () => microStep(micro, sequences, counts, options));
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
  readonly values: TermValues;
  readonly micro: number;
  readonly targets: number;
  readonly tokens: number;
  readonly dropped: number;
  readonly brokenLosses: readonly string[];
  readonly difference: LogProbDifference;
  readonly before: readonly MeasuredSequence[];
}

const DROPPED: MicroStep = {
  values: NOTHING.values,
  micro: 0,
  targets: 0,
  tokens: 0,
  dropped: 1,
  brokenLosses: [],
  difference: NOTHING.difference,
  before: [],
};

async function microStep(
  micro: MicroBatch,
  sequences: readonly TrainingSequence[],
  counts: readonly TermCounts[],
  options: OptimizerStepOptions,
): Promise<MicroStep> {
  const { backend, terms, version, temperature, timer, signal } = options;
  const again = async (members: readonly number[]) => {
    if (members.length === 0) return { ...DROPPED, dropped: 0 };
    return microStep(microBatchOf(sequences, members, temperature), sequences, counts, options);
  };
  const members = micro.members.map((member) => sequences[member]!);
  const entropy = terms.some((term) => term.loss.needs.entropy === true);
  const forward = await timer
    .measure('forward', () => backend.forward(micro.batch, { retain: true, adapter: 'on', entropy, signal }))
    .catch((error: unknown) => {
      if (!(error instanceof GradientError) || error.code !== 'not_finite') throw error;
      return null;
    });
  if (forward === null) {
    if (members.length === 1) return DROPPED;
    const [first, second] = halves(micro.members);
    return merged([await again(first), await again(second)]);
  }
  const logProbs = Float64Array.from(forward.logProbs);
  const offsets = micro.targetOffsets;
  const forwarded = { offsets, logProbs, entropy: forward.entropy === undefined ? null : Float64Array.from(forward.entropy) };
  const evaluated = evaluateTerms(terms, counts, members, forwarded);
  const gradient = inSinglePrecision(evaluated);
  const isFinite = (i: number) => Object.values(gradient).every((values) => values.subarray(offsets[i], offsets[i + 1]).every(Number.isFinite));
  const finite = micro.members.filter((_, i) => isFinite(i));
  if (finite.length < members.length) {
    await backend.drop(forward.batchId);
    const broken = terms.filter((term, i) => !isGradientFinite(evaluateTerms([term], [counts[i]!], members, forwarded))).map(({ name }) => name);
    const rest = await again(finite);
    return { ...rest, dropped: rest.dropped + members.length - finite.length, brokenLosses: [...broken, ...rest.brokenLosses] };
  }
  await timer.measure('backward', () => backend.backward(forward.batchId, gradient));
  return {
    values: evaluated.values,
    micro: 1,
    targets: micro.batch.targets.length,
    tokens: micro.batch.ids.length,
    dropped: 0,
    brokenLosses: [],
    difference: differenceOf(members, logProbs, offsets, version),
    before: version === null ? [] : members.map((sequence, i) => ({ sequence, logProbs: logProbs.subarray(offsets[i], offsets[i + 1]) })),
  };
}

/** The gradients as the backend receives them: a float64 may be finite while its float32 is infinite. */
function inSinglePrecision({ gradient, dEntropy }: Evaluated): { readonly dLogProbs: Float32Array; readonly dEntropy?: Float32Array } {
  return { dLogProbs: Float32Array.from(gradient), ...(dEntropy === null ? {} : { dEntropy: Float32Array.from(dEntropy) }) };
}

function isGradientFinite(evaluated: Evaluated): boolean {
  return Object.values(inSinglePrecision(evaluated)).every((values) => values.every(Number.isFinite));
}

function differenceOf(members: readonly TrainingSequence[], logProbs: Float64Array, offsets: Int32Array, version: number | null): LogProbDifference {
  let [tokens, sum, max] = [0, 0, 0];
  for (const [i, member] of members.entries()) {
    if (member.logProbs === null || member.trajectory.policy.version !== version) continue;
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
  const { micro, targets, tokens, ...rest } = merged(parts);
  return { ...rest, outcome: 'applied', gradNorm: null, microBatches: micro, trainedTokens: targets, forwardedTokens: tokens };
}

function merged(parts: readonly MicroStep[]): MicroStep {
  const sum = (value: (part: MicroStep) => number) => parts.reduce((all, part) => all + value(part), 0);
  const names = new Set(parts.flatMap(({ values }) => [...values.byTerm.keys()]));
  return {
    values: {
      loss: sum(({ values }) => values.loss),
      byTerm: new Map([...names].map((name) => [name, mergeLossMetrics(parts.map(({ values }) => values.byTerm.get(name) ?? {}))])),
    },
    micro: sum(({ micro }) => micro),
    targets: sum(({ targets }) => targets),
    tokens: sum(({ tokens }) => tokens),
    dropped: sum(({ dropped }) => dropped),
    brokenLosses: [...new Set(parts.flatMap(({ brokenLosses }) => brokenLosses))],
    difference: {
      tokens: sum(({ difference }) => difference.tokens),
      sum: sum(({ difference }) => difference.sum),
      max: parts.reduce((most, { difference }) => Math.max(most, difference.max), 0),
    },
    before: parts.flatMap(({ before }) => before),
  };
}
