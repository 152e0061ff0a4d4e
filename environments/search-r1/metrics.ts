/** The metrics that upstream logs under `env/` for a batch of rollouts (verl/trainer/ppo/ray_trainer.py, compute_data_metrics). */

export interface RolloutStats {
  /** Number of generations, the last one without a search included. Upstream counts 1 plus the steps after which the rollout was still active. */
  readonly turns: number;
  /** No answer was given. */
  readonly stillActive: boolean;
  readonly validActions: number;
  readonly validSearches: number;
}

/** The logged names and values. `rollouts` must not be empty. */
export function environmentMetrics(rollouts: readonly RolloutStats[]): Record<string, number> {
  const mean = (of: (r: RolloutStats) => number) => rollouts.reduce((sum, r) => sum + of(r), 0) / rollouts.length;
  return {
    'env/number_of_actions/mean': mean((r) => r.turns),
    'env/number_of_actions/max': rollouts.reduce((max, r) => Math.max(max, r.turns), -Infinity),
    'env/number_of_actions/min': rollouts.reduce((min, r) => Math.min(min, r.turns), Infinity),
    'env/finish_ratio': 1 - mean((r) => (r.stillActive ? 1 : 0)),
    'env/number_of_valid_action': mean((r) => r.validActions),
    'env/ratio_of_valid_action': mean((r) => r.validActions / r.turns),
    'env/number_of_valid_search': mean((r) => r.validSearches),
  };
}
