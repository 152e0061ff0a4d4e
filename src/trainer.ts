/**
 * `vf-search/trainer`: the operations of a GRPO trainer for a program that decides each step, the names that a module needs to bring its own source, loss or credit to
 * `vf-train`, and the types of the trainer's other interfaces. It is an entry apart from `vf-search` and `vf-search/engine`, because environments need nothing of it.
 * A whole training is `train` of `vf-search`.
 */
export { type GrpoTrainer, type GrpoTrainerOptions, openGrpoTrainer } from './library/open-grpo-trainer.ts';
export type { GenerateOptions, SteppedPolicy, UpdatedPolicy } from './trainer/stepped-policy.ts';

export type { TrainingConfig } from './schemas/training-config.ts';
export type {
  CreateSource,
  DeclareRoles,
  PhasePlan,
  RolloutStore,
  SourceContext,
  StepRollouts,
  TrajectoryBatch,
  TrajectorySource,
} from './trainer/trajectory-source.ts';
export { POLICY_ROLE, type Trajectory, type TrajectoryBranch, trajectoryOf, withReward } from './trainer/trajectory.ts';
export { sequencesOf } from './trainer/trajectory-branches.ts';

export type {
  Advantage,
  Credit,
  CreditAssignment,
  CreditBatch,
  CreditBranch,
  CreditContext,
  CreditFactory,
  CreditRollout,
  CreditTurn,
} from './trainer/credit.ts';
export { type AdvantageConfig, type GroupAdvantages, groupAdvantages } from './trainer/credit/group-advantages.ts';

export type { LossContext, LossFactory } from './trainer/losses/registry.ts';
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
} from './trainer/token-loss.ts';
export { broadcastOverTokens, countTokens } from './trainer/losses/token-counts.ts';
export { meanMetric, mergeLossMetrics } from './trainer/losses/loss-metrics.ts';
export { type Aggregation, tokenWeight } from './trainer/losses/aggregation.ts';
export { klEstimate, type KlConfig, type KlEstimator } from './trainer/losses/kl.ts';
export { nllLoss } from './trainer/losses/nll-loss.ts';
export { type Objective, ratioLoss, type RatioLossConfig } from './trainer/losses/ratio-loss.ts';
export { type ByRole, rpgLoss, type RpgLossConfig } from './trainer/losses/rpg-loss.ts';
export type { SamplerCorrection } from './trainer/losses/sampler-correction.ts';

export type * from './trainer/gradient-backend.ts';
export type * from './trainer/weight-publisher.ts';

export type { MetricsRow, RecordedMetricsRow, TrainingEvent, TrainingObserver, TrainingPhase, TrainingStart } from './trainer/training-observer.ts';
export { GradientError, type GradientErrorCode, PublishError } from './core/errors.ts';
