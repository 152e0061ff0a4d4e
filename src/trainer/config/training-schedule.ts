/** The steps of a run, and the learning rate of each: supervised steps first, then those on rollouts. */
import type { NewRun } from '../../core/new-run.ts';
import { settingNumber } from '../../core/setting-number.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { AdamOptions } from '../../core/adam-options.ts';
import type { SkipReason } from '../skip-reason.ts';
import type { LossTerm } from '../token-loss.ts';

/** The files and data sets that `[sft]` names; empty if nothing is learned from demonstrations. */
export function demonstrationSources({ data, problems }: Pick<TrainingConfig['sft'], 'data' | 'problems'>): readonly string[] {
  return [data ?? [], problems ?? []].flat();
}

/** Number of supervised steps, which come first; 0 without demonstrations. */
export function supervisedSteps({ sft }: Pick<TrainingConfig, 'sft'>): number {
  return demonstrationSources(sft).length === 0 ? 0 : (sft.steps ?? 0);
}

/** The last step of a run. */
export function totalSteps(config: Pick<TrainingConfig, 'sft' | 'steps'>): number {
  return supervisedSteps(config) + config.steps;
}

/** The optimiser's settings for a step, from 1. */
export function adamOptions(config: Pick<TrainingConfig, 'optimizer' | 'sft' | 'steps'>, step: number): AdamOptions {
  const { optimizer, sft, steps } = config;
  const { beta1, beta2, epsilon, weightDecay, maxGradNorm } = optimizer;
  const supervised = supervisedSteps(config);
  const peak = peakRate(config, step);
  const { minLearningRate: floor, schedule: shape, warmupSteps } = optimizer;
  const learningRate =
    step <= supervised
      ? scheduledValue({ shape: sft.schedule, peak, floor: 0, warmupSteps: sft.warmupSteps, steps: supervised }, step - 1)
      : scheduledValue({ shape, peak, floor, warmupSteps, steps }, step - supervised - 1);
  return { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm };
}

/** The highest learning rate of the steps to which a step belongs: the supervised ones, or those on rollouts. */
export function peakRate({ optimizer, sft }: Pick<TrainingConfig, 'optimizer' | 'sft'>, step: number): number {
  return (step <= supervisedSteps({ sft }) ? sft.learningRate : null) ?? optimizer.learningRate;
}

/** A rate at which LoRA usually trains: that of the small models of the presets `laptop`. */
const USUAL_RATE = 1e-3;

/** True if an update by weight decay alone makes the weights larger: it multiplies them by 1 - rate · decay. */
export function isDecayTooLarge(config: Pick<TrainingConfig, 'optimizer' | 'sft'>, step: number): boolean {
  return peakRate(config, step) * config.optimizer.weightDecay > 2;
}

/** The flags that lower the learning rate of a step, or a weight decay that makes weights grow, for a new run: to a tenth of its peak, at most `USUAL_RATE`. */
export function lowerRate({ optimizer, sft }: Pick<TrainingConfig, 'optimizer' | 'sft'>, step: number): readonly string[] {
  if (isDecayTooLarge({ optimizer, sft }, step)) return ['--set', 'optimizer.weight_decay=0'];
  const supervised = step <= supervisedSteps({ sft }) ? sft.learningRate : null;
  const lower = settingNumber(Math.min(Number(((supervised ?? optimizer.learningRate) / 10).toPrecision(2)), USUAL_RATE));
  return supervised === null ? ['--lr', lower] : ['--set', `sft.learning_rate=${lower}`];
}

/** The same, for `-R`. */
export function lowerRateFlags(config: Pick<TrainingConfig, 'optimizer' | 'sft'>, step: number): readonly string[] {
  return ['--allow-changes', ...lowerRate(config, step)];
}

/** The flags of `-R` that let a run take as many further steps on rollouts; none for a run without such steps. */
export function moreStepsFlags({ steps }: Pick<TrainingConfig, 'steps'>): readonly string[] {
  return steps === 0 ? [] : ['--steps', String(2 * steps)];
}

/** A new run that may get further where nothing was learnt from rewards: the sampling of a run cannot change. Null for other reasons. */
export function newRunAfter(reason: SkipReason | null, { rollouts }: Pick<TrainingConfig, 'rollouts'>): NewRun | null {
  const { rolloutsPerExample, maxTokens } = rollouts;
  if (reason?.kind === 'constant')
    return { why: 'with more rollouts per row, whose rewards may differ', flags: ['-r', String(Math.max(4, 2 * rolloutsPerExample))] };
  if ((reason?.kind !== 'cut' && reason?.kind !== 'masked') || maxTokens === null) return null;
  return { why: 'with more tokens per generation', flags: ['--max-tokens', String(2 * maxTokens)] };
}

/** How a batch becomes optimiser steps. */
export type SplitOfStep = Pick<TrainingConfig['algorithm'], 'oldLogProbs' | 'minibatches' | 'epochs' | 'branches' | 'branchWeight'>;

/** Says how a batch is split into updates. A supervised batch is one optimiser step. */
export function splitOfStep(config: Pick<TrainingConfig, 'sft' | 'steps' | 'algorithm'>, step: number): SplitOfStep {
  return step <= supervisedSteps(config) ? { ...config.algorithm, minibatches: 1, epochs: 1 } : config.algorithm;
}

/**
 * Returns the number by which the logits of a step are divided. Demonstrations have no sampling temperature; trained together with rollouts, they use the rollouts'
 * temperature.
 */
export function temperatureOfStep(config: Pick<TrainingConfig, 'sft' | 'steps' | 'rollouts'>, step: number): number {
  return step <= supervisedSteps(config) ? 1 : config.rollouts.temperature;
}

/** The losses of a step: after the supervised steps, those on demonstrations have the weight of the mixture. */
export function lossesOfStep(losses: readonly LossTerm[], config: Pick<TrainingConfig, 'sft' | 'steps'>, step: number): readonly LossTerm[] {
  if (step <= supervisedSteps(config)) return losses;
  return losses.map((term) => (term.on === 'demonstrations' ? { ...term, weight: term.weight * config.sft.mixWeight } : term));
}

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
  readonly steps: number;
}

/**
 * The value at `step`, counted from 0. The warm-up reaches the peak at step `warmupSteps` − 1. In Hugging Face and verl it starts at exactly 0, which
 * wastes the first batch.
 */
export function scheduledValue({ shape, peak, floor, warmupSteps, steps }: Schedule, step: number): number {
  if (step < warmupSteps) return (peak * (step + 1)) / warmupSteps;
  if (shape === 'constant') return peak;
  const progress = Math.min((step - warmupSteps) / Math.max(steps - warmupSteps, 1), 1);
  const left = shape === 'linear' ? 1 - progress : 0.5 * (1 + Math.cos(Math.PI * progress));
  return floor + (peak - floor) * left;
}
