/**
 * Every metric of `metrics.jsonl`: its name, unit and definition, once. The writer accepts no other name; `docs/metrics.md` is this table. A line is one
 * training step (`kind` = "step") or one evaluation (`kind` = "evaluation"); a metric that was not measured is null or absent.
 */
export interface MetricDefinition {
  readonly name: string;
  readonly unit: 'nats' | 'tokens' | 'share' | 'seconds' | 'count' | 'reward' | 'tokens/s' | 'number';
  readonly definition: string;
}

/** Rewards and metrics of the environment's rubric: `rubric/<name>`, the mean over finished rollouts. */
export const RUBRIC_PREFIX = 'rubric/';

const define = (unit: MetricDefinition['unit'], definitions: Readonly<Record<string, string>>): MetricDefinition[] =>
  Object.entries(definitions).map(([name, definition]) => ({ name, unit, definition }));

export const STEP_METRICS: readonly MetricDefinition[] = [
  ...define('reward', {
    reward_mean: 'Mean reward of the finished rollouts of the step, before any penalty.',
    reward_std: 'Standard deviation of these rewards, n - 1.',
    reward_min: 'The smallest reward of a finished rollout.',
    reward_max: 'The largest reward of a finished rollout.',
    group_reward_std: 'Mean over groups of the standard deviation within the group, as the advantages use it.',
    advantage_mean: 'Mean advantage of the tokens with an advantage: all that are trained, but for those that only a KL or entropy term pulls at.',
    advantage_abs_mean: 'Mean absolute advantage of these tokens.',
  }),
  ...define('count', {
    policy_version: 'The version that the step left behind: its number if it was applied, else the last one that was.',
    sampled_version: 'The version that sampled the rollouts of the step; the smallest, if several.',
    staleness: 'Number of the version that was trained less that of the version that sampled, the largest of the step.',
    rollouts: 'Rollouts of the step that finished.',
    rollouts_failed: 'Rollouts that failed; they leave their group and the loss.',
    groups: 'Groups with at least two finished rollouts.',
    groups_constant:
      'Groups whose rewards, less a KL penalty in the reward, are all equal: no advantage; dropped unless algorithm.constant_groups keeps them.',
    groups_too_small: 'Groups with fewer than two finished rollouts: dropped.',
    groups_trained: 'Groups with an advantage, and tokens to train with it.',
    optimizer_steps: 'Optimiser steps applied.',
    optimizer_steps_skipped: 'Optimiser steps not applied because the gradient was not finite.',
    micro_batches: 'Forward passes with gradient.',
    sampling_attempts: 'How often the rollouts of the step were sampled: above 1 when too many failed.',
  }),
  ...define('tokens', {
    sampled_tokens: 'Tokens that the policy wrote in finished rollouts.',
    trained_tokens:
      'Tokens that a gradient was taken of, over all epochs; those of a rollout without an advantage only where a KL or entropy term pulls at them.',
    forwarded_tokens: 'Tokens of trained sequences, prompts and observations included.',
    tokens_per_rollout: 'Sampled tokens of a finished rollout, mean.',
    sequence_length_max: 'The longest sequence with an advantage.',
  }),
  ...define('number', {
    turns_mean: 'Generations of a finished rollout, mean.',
    learning_rate: "The optimiser's, in this step.",
    loss: 'Policy loss plus KL and entropy terms, summed over the step, mean of its optimiser steps.',
    policy_loss: 'The policy term of `loss`.',
    kl_loss: 'The KL term of `loss`, coefficient included.',
    entropy_loss: 'The entropy term of `loss`, coefficient included.',
    grad_norm: 'Norm of the gradient before clipping, mean of the optimiser steps.',
    ratio_mean: 'Mean of π / π_old over trained tokens; 0.999 to 1.001 on policy.',
    ratio_min: 'The smallest ratio of a trained token.',
    ratio_max: 'The largest ratio of a trained token.',
    correction_mean: 'Mean weight of truncated importance sampling.',
  }),
  ...define('share', {
    clip_fraction: 'Share of trained tokens whose ratio is beyond its bound.',
    clip_fraction_low: 'Share of trained tokens whose ratio is below the lower bound.',
    clip_fraction_high: 'Share of trained tokens whose ratio is above the upper bound.',
    dual_clip_fraction: 'Share of trained tokens cut by the dual clip.',
    correction_truncated_fraction: 'Share of trained tokens whose weight reached the cap.',
    truncated: 'Share of finished rollouts that a length limit cut short.',
    failed: 'Share of rollouts that failed.',
    environment_tokens: 'Share of the tokens of sequences with an advantage that the environment wrote, the prompt not counted.',
  }),
  ...define('nats', {
    entropy: 'Mean of -log π of sampled tokens under the policy that sampled them: an estimate of its entropy.',
    approx_kl: 'KL(π_old || π) of the trained tokens, estimated as mean(r - 1 - log r).',
    kl: 'Mean KL estimate of the penalty, clamped, before its coefficient.',
    log_prob_difference_mean: 'Mean |log π trainer - log π server| of trained tokens before the first update; null where the version differs.',
    log_prob_difference_max: 'The largest |log π trainer - log π server| of these tokens.',
    probe_difference_mean: 'Mean |Δ log-prob| that the publisher found for the new version.',
    probe_difference_max: 'The largest |Δ log-prob| of that probe.',
  }),
  ...define('seconds', {
    step_seconds: 'Wall clock of the step, without the evaluation and the checkpoint after it.',
    rollouts_seconds: 'Sampling; in asynchronous runs the wait for it.',
    forward_seconds: 'Forward passes.',
    backward_seconds: 'Backward passes.',
    update_seconds: 'Optimiser steps.',
    publish_seconds: 'From the saved adapter to the switch, saving included.',
    publish_load_seconds: "The server's part of `publish_seconds`: loading the adapter.",
    checkpoint_seconds: 'The checkpoint made since the last line, if one was.',
    overhead_cpu_seconds: 'CPU time of this process during the step: what the trainer itself costs, and all that an embedded engine computes.',
  }),
  ...define('tokens/s', {
    sampled_tokens_per_second: 'Sampled tokens over `rollouts_seconds`.',
    trained_tokens_per_second: 'Forwarded tokens over forward and backward seconds.',
  }),
];

export const EVALUATION_METRICS: readonly MetricDefinition[] = [
  ...define('reward', {
    reward_mean: 'Mean reward of finished rollouts on held-out rows.',
    reward_low: 'Lower end of the 95 % interval of `reward_mean`; the row is the unit.',
    reward_high: 'Upper end of the 95 % interval of `reward_mean`.',
  }),
  ...define('count', {
    policy_version: 'The version that was evaluated.',
    rollouts: 'Finished rollouts.',
    rollouts_failed: 'Failed rollouts; they are in no mean.',
  }),
  ...define('tokens', { tokens_per_rollout: 'Sampled tokens of a finished rollout, mean.' }),
  ...define('number', { turns_mean: 'Generations of a finished rollout, mean.' }),
  ...define('share', { truncated: 'Share of finished rollouts that a length limit cut short.' }),
  ...define('seconds', { evaluation_seconds: 'Wall clock of the evaluation.' }),
];

/** One line of `metrics.jsonl`. */
export interface MetricsRow {
  readonly kind: 'step' | 'evaluation';
  /** Steps finished when it was measured: 0 is the start. */
  readonly step: number;
  readonly values: Readonly<Record<string, number | null>>;
}
