/**
 * `vf-search/trainer`: the names that a module needs to bring its own source or loss to `vf-train`, and the types of the trainer's other interfaces. It is an entry
 * apart from `vf-search` and `vf-search/engine`, because environments need nothing of it. Training itself is `train` of `vf-search`.
 */
export type { TrainingConfig } from '../schemas/training-config.ts';
export type {
  CreateSource,
  DeclareRoles,
  PhasePlan,
  RolloutStore,
  SourceContext,
  StepRollouts,
  TrajectoryBatch,
  TrajectorySource,
} from './trajectory-source.ts';
export { POLICY_ROLE, type Trajectory, trajectoryOf, withReward } from './trajectory.ts';

export type { Credit, CreditedBatch, TrainingSequence } from './credit.ts';
export { type AdvantageConfig, type GroupAdvantages, groupAdvantages } from './credit/group-advantages.ts';

export type { LossContext, LossFactory } from './losses/registry.ts';
export type {
  LossMetric,
  LossMetrics,
  LossNeeds,
  PlayedRole,
  PlayedRoles,
  TokenCounts,
  TokenLoss,
  TokenLossBatch,
  TokenLossValue,
} from './token-loss.ts';
export { broadcastOverTokens, countTokens } from './losses/token-counts.ts';
export { meanMetric, mergeLossMetrics } from './losses/loss-metrics.ts';
export { type Aggregation, tokenWeight } from './losses/aggregation.ts';
export { klEstimate, type KlConfig, type KlEstimator } from './losses/kl.ts';
export { nllLoss } from './losses/nll-loss.ts';
export { type Objective, ratioLoss, type RatioLossConfig } from './losses/ratio-loss.ts';
export { type ByRole, rpgLoss, type RpgLossConfig } from './losses/rpg-loss.ts';
export type { SamplerCorrection } from './losses/sampler-correction.ts';

export type * from './gradient-backend.ts';
export type * from './weight-publisher.ts';

export type { MetricsRow, RecordedMetricsRow, TrainingEvent, TrainingObserver, TrainingPhase, TrainingStart } from './training-observer.ts';
export { GradientError, type GradientErrorCode, PublishError } from '../core/errors.ts';
