/** Updates the policy on a credited batch: computes old and reference log-probs, then runs epochs of optimiser steps over minibatches of whole groups. */
import type { CreditedBatch, TrainingSequence } from '../credit.ts';
import type { AdamOptions } from '../../core/adam-options.ts';
import type { SkipReason } from '../skip-reason.ts';
import type { LossTerm } from '../token-loss.ts';
import { mergeLossMetrics } from '../losses/loss-metrics.ts';
import type { SplitOfStep } from '../config/training-schedule.ts';
import { branchSequences } from '../credit/branch-sequences.ts';
import { LOSS_PREFIX, MAIN_LOSS_METRICS } from '../records/metrics.ts';
import { takes } from './evaluate-terms.ts';
import { logProbPass, type PassOptions } from '../gradients/log-prob-pass.ts';
import { intoMinibatches } from './minibatches.ts';
import { type OptimizerStep, optimizerStep } from './optimizer-step.ts';
import type { PhaseClock } from './phase-clock.ts';
import type { MeasuredSequence } from './update-shift.ts';

export interface UpdateOptions extends PassOptions {
  readonly algorithm: SplitOfStep;
  readonly adam: AdamOptions;
  /** Version of the backend's weights. */
  readonly version: number;
  readonly timer: PhaseClock;
  /** Optimiser steps whose KL is above this are skipped, in nats per token. @default null: none */
  readonly skipKl?: number | null;
  /** Called before each change of the weights. @default ignored */
  readonly onUpdate?: () => Promise<void>;
}

export interface PolicyUpdate {
  /** Number of optimiser steps that changed the weights; if 0, the version stays too. */
  readonly applied: number;
  /** The reason why no weight changed; null if one did. */
  readonly reason: SkipReason | null;
  /** Names of the losses whose gradient was not finite, so that sequences were left out. */
  readonly brokenLosses: readonly string[];
  /** Number of optimiser steps that were skipped because of their KL. */
  readonly diverged: number;
  /** Tokens through forward and backward passes. */
  readonly forwardedTokens: number;
  /** The log-probs of sequences before the first optimiser step. */
  readonly before: readonly MeasuredSequence[];
  /** By their names in metrics.ts. */
  readonly values: Readonly<Record<string, number | null>>;
}

export async function updatePolicy(work: CreditedBatch, losses: readonly LossTerm[], options: UpdateOptions): Promise<PolicyUpdate> {
  const { algorithm, adam, timer, version } = options;
  const groups = work.groups.map((group) => group.flatMap((sequence) => branchSequences(sequence, algorithm)));
  const minibatches = intoMinibatches(groups, algorithm.minibatches);
  const sequences = groups.flat();
  const needs = {
    reference: needing(losses, 'reference'),
    // With one optimiser step the current pass is the old one.
    own: minibatches.length * algorithm.epochs > 1 ? needing(losses, 'old') : () => false,
    sampler: algorithm.oldLogProbs === 'sampler',
  };
  const { prepared, dropped, droppedTokens } = await timer.measure('forward', () => prepare(sequences, needs, options));
  const steps: OptimizerStep[] = [];
  for (let epoch = 0; epoch < algorithm.epochs; epoch++) {
    for (const minibatch of minibatches) {
      const isUpdated = steps.some(({ outcome }) => outcome === 'applied');
      const ready = minibatch.flatMap((sequence) => prepared.get(sequence) ?? []);
      const unready = minibatch.filter((sequence) => !prepared.has(sequence));
      steps.push(await optimizerStep(ready, { ...options, terms: losses, version: isUpdated ? null : version }, unready));
    }
  }
  const applied = steps.filter(({ outcome }) => outcome === 'applied').length;
  const brokenLosses = [...new Set(steps.flatMap((step) => step.brokenLosses))];
  return {
    applied,
    reason: applied > 0 ? null : emptyReason(work, { steps, dropped, brokenLosses }),
    brokenLosses,
    diverged: steps.filter(({ outcome }) => outcome === 'diverged').length,
    before: steps.flatMap((step) => step.before),
    forwardedTokens: steps.reduce((sum, { forwardedTokens }) => sum + forwardedTokens, 0),
    values: { learning_rate: adam.learningRate, ...updateValues(steps, losses, dropped), tokens_dropped: droppedTokens },
  };
}

/** Tells whether some loss needs these log-probs of a sequence. */
function needing(losses: readonly LossTerm[], what: 'old' | 'reference'): (sequence: TrainingSequence) => boolean {
  const terms = losses.filter(({ loss }) => loss.needs[what]);
  return (sequence) => terms.some((term) => takes(term, sequence));
}

interface Needs {
  readonly reference: (sequence: TrainingSequence) => boolean;
  readonly own: (sequence: TrainingSequence) => boolean;
  /** The sampler's own log-probs are the old ones. */
  readonly sampler: boolean;
}

/**
 * Adds old and reference log-probs to each sequence. Tokens without finite ones leave it, and the divisor of the loss; a sequence of such tokens alone is dropped.
 */
async function prepare(
  sequences: readonly TrainingSequence[],
  needs: Needs,
  pass: PassOptions,
): Promise<{ readonly prepared: ReadonlyMap<TrainingSequence, TrainingSequence>; readonly dropped: number; readonly droppedTokens: number }> {
  const known = ({ logProbs }: TrainingSequence) => (needs.sampler ? logProbs : null);
  const passOver = async (adapter: 'initial' | 'on', wanted: readonly TrainingSequence[]) => {
    const found = await logProbPass(wanted, adapter, pass);
    return new Map(wanted.map((sequence, i) => [sequence, found[i]!]));
  };
  const references = await passOver(
    'initial',
    sequences.filter((sequence) => sequence.referenceLogProbs === null && needs.reference(sequence)),
  );
  const own = await passOver(
    'on',
    sequences.filter((sequence) => known(sequence) === null && needs.own(sequence)),
  );
  const prepared = new Map<TrainingSequence, TrainingSequence>();
  let droppedTokens = 0;
  for (const sequence of sequences) {
    const whole = {
      ...sequence,
      oldLogProbs: known(sequence) ?? own.get(sequence) ?? null,
      referenceLogProbs: sequence.referenceLogProbs ?? references.get(sequence) ?? null,
    };
    const usable = withUsableTokens(whole);
    if (usable.targets.length === 0 && sequence.targets.length > 0) continue;
    prepared.set(sequence, usable);
    droppedTokens += sequence.targets.length - usable.targets.length;
  }
  return { prepared, dropped: sequences.length - prepared.size, droppedTokens };
}

/** The sequence with only those tokens whose old and reference log-probs are finite, if it has such log-probs. */
function withUsableTokens(sequence: TrainingSequence): TrainingSequence {
  const { oldLogProbs: old, referenceLogProbs: reference, logProbs, targets, advantages } = sequence;
  const isUsable = (_: number, t: number) => [old, reference].every((values) => values === null || Number.isFinite(values[t]!));
  if (targets.every(isUsable)) return sequence;
  const kept = (values: Float64Array | null) => values && values.filter(isUsable);
  return {
    ...sequence,
    targets: targets.filter(isUsable),
    advantages: advantages.filter(isUsable),
    logProbs: kept(logProbs),
    oldLogProbs: kept(old),
    referenceLogProbs: kept(reference),
    ...(sequence.kinds === undefined ? {} : { kinds: sequence.kinds.filter((_, t) => isUsable(0, t)) }),
  };
}

interface Updated {
  readonly steps: readonly OptimizerStep[];
  readonly dropped: number;
  readonly brokenLosses: readonly string[];
}

function emptyReason({ groups, constantReason, isOwnReason = false }: CreditedBatch, { steps, dropped, brokenLosses }: Updated): SkipReason {
  if (brokenLosses.length > 0) return { kind: 'not_finite', text: `the gradient of ${lossNames(brokenLosses)} was not finite` };
  if (dropped > 0 || steps.some(({ outcome }) => outcome === 'not_finite'))
    return { kind: 'not_finite', text: 'a log-prob or the gradient was not finite' };
  if (steps.some(({ outcome }) => outcome === 'diverged'))
    return { kind: 'diverged', text: 'the KL between the policy and the one that is trained was above guards.skip_kl' };
  const sequences = groups.flat();
  if (sequences.length > 0 && sequences.every(({ targets }) => targets.length === 0))
    return sequences.some(({ trajectory }) => trajectory.targets.length > 0)
      ? { kind: 'masked', text: 'no rollout has a token to train; rollouts.truncated = "mask" leaves out those that were cut short' }
      : { kind: 'no_loss', text: 'the policy wrote no token in any rollout' };
  const isInformative = sequences.some(({ advantages }) => advantages.some((advantage) => advantage !== 0));
  return isInformative
    ? { kind: 'no_loss', text: 'no token of any group has a loss' }
    : { kind: 'constant', text: constantReason, ...(isOwnReason ? { isOwn: true } : {}) };
}

/** `the loss "near"`, `the losses "near", "far"`. */
export function lossNames(names: readonly string[]): string {
  return `the loss${names.length === 1 ? '' : 'es'} ${names.map((name) => `"${name}"`).join(', ')}`;
}

function updateValues(steps: readonly OptimizerStep[], losses: readonly LossTerm[], dropped: number): Record<string, number | null> {
  const done = steps.filter(({ outcome }) => outcome === 'applied');
  const measured = steps.filter(({ outcome }) => outcome === 'applied' || outcome === 'diverged');
  const sum = (value: (step: OptimizerStep) => number) => steps.reduce((total, step) => total + value(step), 0);
  const mean = (value: (step: OptimizerStep) => number) =>
    done.length === 0 ? null : done.reduce((total, step) => total + value(step), 0) / done.length;
  const compared = sum(({ difference }) => difference.tokens);
  return {
    optimizer_steps: done.length,
    optimizer_steps_skipped: steps.filter(({ outcome }) => outcome === 'not_finite' || outcome === 'diverged').length,
    micro_batches: sum(({ microBatches }) => microBatches),
    trained_tokens: sum(({ trainedTokens }) => trainedTokens),
    forwarded_tokens: sum(({ forwardedTokens }) => forwardedTokens),
    sequences_dropped: dropped + sum((step) => step.dropped),
    loss: mean(({ values }) => values.loss),
    grad_norm: mean((step) => step.gradNorm ?? NaN),
    ...Object.assign({}, ...losses.map((term) => termValues(term, measured))),
    log_prob_difference_mean: compared === 0 ? null : sum(({ difference }) => difference.sum) / compared,
    log_prob_difference_max: compared === 0 ? null : steps.reduce((most, { difference }) => Math.max(most, difference.max), 0),
  };
}

/** A term's metrics over the optimiser steps of a batch: the shares of the loss are averaged, everything else is merged as between parts of a step. */
function termValues({ name, isMain }: LossTerm, steps: readonly OptimizerStep[]): Record<string, number> {
  const parts = steps.map(({ values }) => values.byTerm.get(name)).filter((part) => part !== undefined);
  const merged = Object.entries(mergeLossMetrics(parts));
  // Names that come from a module or a role are open; they must not pass for other metrics of the step.
  const named = (key: string) => (isMain && MAIN_LOSS_METRICS.has(key) ? key : `${LOSS_PREFIX}${name}/${key}`);
  return Object.fromEntries(merged.map(([key, metric]) => [named(key), metric.merge === 'sum' ? metric.value / parts.length : metric.value]));
}
