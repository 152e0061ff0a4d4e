/** Updates the policy on a batch of groups: computes old and reference log-probs, then runs epochs of optimiser steps over minibatches of whole groups. */
import { GradientError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { type LossMetrics, mergeLossMetrics } from '../losses/loss-metrics.ts';
import { scheduledValue } from './schedule.ts';
import type { TrainingSequence } from '../credit/form-groups.ts';
import type { AdamOptions, GradientBackend } from '../gradients/gradient-backend.ts';
import { logProbPass, type PassOptions } from './log-prob-pass.ts';
import { lossConfig } from '../losses/loss-config.ts';
import { type LossSequence, type OptimizerStep, optimizerStep } from './optimizer-step.ts';
import type { PhaseTimer } from './phase-timer.ts';
import type { TokenBudget } from './token-budget.ts';

const NOT_FINITE = 'a log-prob or the gradient was not finite';

export interface UpdateOptions {
  readonly backend: GradientBackend;
  readonly config: Pick<TrainingConfig, 'algorithm' | 'optimizer' | 'rollouts' | 'steps'>;
  /** The environment's limit of new tokens per generation. */
  readonly responseTokens: number;
  /** From 1. */
  readonly step: number;
  /** Version of the backend's weights. */
  readonly version: number;
  readonly budget: TokenBudget;
  readonly timer: PhaseTimer;
  readonly signal: AbortSignal;
}

export interface PolicyUpdate {
  /** Number of optimiser steps that changed the weights; if 0, the version stays too. */
  readonly applied: number;
  /** Why no weight changed; null if one did. */
  readonly reason: string | null;
  readonly learningRate: number;
  /** By their names in metrics.ts. */
  readonly values: Readonly<Record<string, number | null>>;
}

export async function updatePolicy(groups: readonly (readonly TrainingSequence[])[], options: UpdateOptions): Promise<PolicyUpdate> {
  const { backend, config, responseTokens, budget, timer, signal, version } = options;
  const { algorithm, rollouts } = config;
  const loss = lossConfig(algorithm, responseTokens);
  const minibatches = intoMinibatches(groups, algorithm.minibatches);
  const pass = { backend, budget, temperature: rollouts.temperature, signal };
  const adam = adamOptions(config, options.step);
  const needs = {
    reference: loss.kl?.against === 'reference',
    own: algorithm.oldLogProbs === 'trainer' && minibatches.length * algorithm.epochs > 1,
    sampler: algorithm.oldLogProbs === 'sampler',
  };
  const prepared = await timer
    .measure('forward', () => prepare(groups.flat(), needs, pass))
    .catch((error: unknown) => {
      if (!(error instanceof GradientError) || error.code !== 'not_finite') throw error;
      return null;
    });
  if (prepared === null) return { applied: 0, reason: NOT_FINITE, learningRate: adam.learningRate, values: updateValues([], loss.kl !== null) };
  const steps: OptimizerStep[] = [];
  for (let epoch = 0; epoch < algorithm.epochs; epoch++) {
    for (const minibatch of minibatches) {
      const isUpdated = steps.some(({ outcome }) => outcome === 'applied');
      steps.push(
        await optimizerStep(
          minibatch.map((sequence) => prepared.get(sequence)!),
          { ...pass, loss, entropyCoefficient: algorithm.entropyCoefficient, adam, timer, version: isUpdated ? null : version },
        ),
      );
    }
  }
  const applied = steps.filter(({ outcome }) => outcome === 'applied').length;
  return {
    applied,
    reason: applied > 0 ? null : emptyReason(groups, steps),
    learningRate: adam.learningRate,
    values: updateValues(steps, loss.kl !== null),
  };
}

/** Adds old and reference log-probs to each sequence. */
async function prepare(
  sequences: readonly TrainingSequence[],
  needs: { readonly reference: boolean; readonly own: boolean; readonly sampler: boolean },
  pass: PassOptions,
): Promise<ReadonlyMap<TrainingSequence, LossSequence>> {
  const references = needs.reference ? await logProbPass(sequences, 'initial', pass) : null;
  const own = needs.own ? await logProbPass(sequences, 'on', pass) : null;
  const prepared = sequences.map((sequence, i) => {
    const oldLogProbs = needs.sampler ? sequence.logProbs : (own?.[i] ?? null);
    return [sequence, { ...sequence, oldLogProbs, referenceLogProbs: references?.[i] ?? null }] as const;
  });
  return new Map(prepared);
}

function emptyReason(groups: readonly (readonly TrainingSequence[])[], steps: readonly OptimizerStep[]): string {
  if (steps.some(({ outcome }) => outcome === 'not_finite')) return NOT_FINITE;
  if (groups.length === 0) return 'no group has two finished rollouts with different rewards';
  return 'no token of any group has a loss';
}

function adamOptions({ optimizer, steps }: UpdateOptions['config'], step: number): AdamOptions {
  const { learningRate: peak, minLearningRate: floor, schedule: shape, warmupSteps, beta1, beta2, epsilon, weightDecay, maxGradNorm } = optimizer;
  const learningRate = scheduledValue({ shape, peak, floor, warmupSteps, totalSteps: steps }, step - 1);
  return { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm };
}

/** Splits consecutive groups as evenly as possible; there are at most as many minibatches as groups. */
function intoMinibatches(groups: readonly (readonly TrainingSequence[])[], wanted: number): TrainingSequence[][] {
  const count = Math.min(wanted, groups.length);
  return Array.from({ length: count }, (_, i) =>
    groups.slice(Math.floor((i * groups.length) / count), Math.floor(((i + 1) * groups.length) / count)).flat(),
  );
}

function updateValues(steps: readonly OptimizerStep[], hasKl: boolean): Record<string, number | null> {
  const done = steps.filter(({ outcome }) => outcome === 'applied');
  const sum = (value: (step: OptimizerStep) => number) => steps.reduce((total, step) => total + value(step), 0);
  const mean = (value: (step: OptimizerStep) => number) =>
    done.length === 0 ? null : done.reduce((total, step) => total + value(step), 0) / done.length;
  const merged: LossMetrics | null = done.length === 0 ? null : mergeLossMetrics(done.flatMap(({ metrics }) => metrics ?? []));
  const compared = sum(({ difference }) => difference.tokens);
  return {
    optimizer_steps: done.length,
    optimizer_steps_skipped: steps.filter(({ outcome }) => outcome === 'not_finite').length,
    micro_batches: sum(({ microBatches }) => microBatches),
    trained_tokens: sum(({ trainedTokens }) => trainedTokens),
    forwarded_tokens: sum(({ forwardedTokens }) => forwardedTokens),
    loss: mean((step) => step.loss),
    policy_loss: mean((step) => step.policyLoss),
    kl_loss: hasKl ? mean((step) => step.klLoss) : null,
    entropy_loss: mean((step) => step.entropyLoss),
    grad_norm: mean((step) => step.gradNorm ?? NaN),
    ratio_mean: merged?.meanRatio ?? null,
    ratio_min: merged?.minRatio ?? null,
    ratio_max: merged?.maxRatio ?? null,
    approx_kl: merged?.approxKlK3 ?? null,
    clip_fraction: merged?.clipFraction ?? null,
    clip_fraction_low: merged?.clipFractionLow ?? null,
    clip_fraction_high: merged?.clipFractionHigh ?? null,
    dual_clip_fraction: merged?.dualClipFraction ?? null,
    correction_mean: merged?.correctionMean ?? null,
    correction_truncated_fraction: merged?.correctionTruncatedFraction ?? null,
    kl: merged?.klMean ?? null,
    log_prob_difference_mean: compared === 0 ? null : sum(({ difference }) => difference.sum) / compared,
    log_prob_difference_max: compared === 0 ? null : steps.reduce((most, { difference }) => Math.max(most, difference.max), 0),
  };
}
