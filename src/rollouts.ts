/**
 * `vf-search/rollouts`: the loop under `evaluate`, for programs that play episodes with a policy and keep no run on disk, and the reader of rollouts that
 * `vf-export` wrote.
 */
export { type PlayOptions, playEpisode } from './rollouts/play.ts';
export type { Played, Rollout, RolloutError, ScoredGroup } from './rollouts/rollout.ts';
export { type RolloutGroup, runRollouts, type RunOptions } from './rollouts/run-rollouts.ts';
export type { RoleModels } from './core/model.ts';
export { openRoleModels, type OpenedRoleModels, type RoleBinding, type RoleBindings } from './models/role-models.ts';
export { clientModel } from './models/client-model.ts';
export { readRollouts } from './evaluate/read-rollouts.ts';
export type { RolloutExport } from './schemas/rollout-export.ts';
