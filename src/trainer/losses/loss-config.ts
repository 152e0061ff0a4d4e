import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Aggregation } from './aggregation.ts';
import type { Objective, PolicyLossConfig } from './policy-loss.ts';

/**
 * Translates a configuration to its loss.
 * @param responseTokens the environment's limit of new tokens: Dr. GRPO's constant unless the configuration sets one
 */
export function lossConfig({ loss, kl, correction }: TrainingConfig['algorithm'], responseTokens: number): PolicyLossConfig {
  return {
    ratio: loss.ratio,
    objective: objective(loss),
    logRatioClamp: loss.logRatioClamp,
    correction: correction.level === 'none' ? null : { level: correction.level, cap: correction.cap },
    aggregation: aggregation(loss, responseTokens),
    kl:
      kl.coefficient === 0 || kl.placement === 'reward'
        ? null
        : { estimator: kl.estimator, coefficient: kl.coefficient, clamp: kl.clamp === null ? null : [-kl.clamp, kl.clamp], against: kl.against },
  };
}

type Loss = TrainingConfig['algorithm']['loss'];

function objective({ objective: kind, clipLow, clipHigh, dualClip, ratioMin, ratioMax }: Loss): Objective {
  if (kind === 'clip') return { kind, clipLow, clipHigh, dualClip };
  return kind === 'cispo' ? { kind, ratioMin, ratioMax } : { kind };
}

function aggregation({ aggregation: kind, maxTokens }: Loss, responseTokens: number): Aggregation {
  switch (kind) {
    case 'sum':
    case 'token_mean':
      return { kind };
    case 'constant':
      return { kind, maxTokens: maxTokens ?? responseTokens };
    default:
      return { kind: 'sequence_mean', within: kind === 'sequence_mean' ? 'mean' : 'sum', countEmpty: false };
  }
}
