/**
 * Name, unit and definition of every metric of `metrics.jsonl`. The writer accepts no other name, and `docs/metrics.md` is generated from this table. A
 * line is a training step (`kind` = "step") or an evaluation (`kind` = "evaluation"); a metric that was not measured is null or absent.
 */
export interface MetricDefinition {
  readonly name: string;
  readonly unit: 'nats' | 'tokens' | 'share' | 'seconds' | 'count' | 'reward' | 'tokens/s' | 'number';
  readonly definition: string;
}

/** Rewards and metrics of the environment's rubric: `rubric/<name>`, the mean over finished rollouts. */
export const RUBRIC_PREFIX = 'rubric/';

/** `reward/<task>`: the mean reward of the finished rollouts of a task, where rows have tasks. */
export const TASK_PREFIX = 'reward/';

const define = (unit: MetricDefinition['unit'], definitions: Readonly<Record<string, string>>): MetricDefinition[] =>
  Object.entries(definitions).map(([name, definition]) => ({ name, unit, definition }));

export const STEP_METRICS: readonly MetricDefinition[] = [
  ...define('reward', {
    reward_mean: "Mean reward of the step's finished rollouts, before any penalty.",
    reward_std: 'Standard deviation of these rewards, with n - 1.',
    reward_min: 'Smallest reward of a finished rollout.',
    reward_max: 'Largest reward of a finished rollout.',
    group_reward_std: 'Standard deviation of rewards within a group as the advantages use it, mean over groups.',
    advantage_mean: 'Mean advantage over tokens with a nonzero advantage; leaves out tokens trained only by a KL or entropy term.',
    advantage_abs_mean: 'Mean absolute advantage over these tokens.',
  }),
  ...define('count', {
    policy_version: 'Policy version after the step: the number of the last step that changed the weights.',
    sampled_version: "Version that sampled the step's rollouts; the smallest if there are several.",
    staleness: 'Version that was trained minus version that sampled; the largest in the step.',
    rollouts: 'Finished rollouts.',
    rollouts_failed: 'Failed rollouts; they leave their group and the loss.',
    groups: 'Groups with at least two finished rollouts.',
    groups_constant:
      'Groups whose rewards, minus a KL penalty in the reward, are all equal. Their advantages are 0; dropped unless algorithm.constant_groups = "keep".',
    groups_too_small: 'Groups with fewer than two finished rollouts; dropped.',
    groups_trained: 'Groups that have a nonzero advantage and tokens to train.',
    optimizer_steps: 'Optimiser steps applied.',
    optimizer_steps_skipped: 'Optimiser steps not applied because the gradient was not finite.',
    micro_batches: 'Forward passes with gradient.',
    sampling_attempts: "How often the step's rollouts were sampled; above 1 if too many failed.",
  }),
  ...define('tokens', {
    sampled_tokens: 'Tokens that the policy sampled in finished rollouts.',
    trained_tokens:
      'Sampled tokens in the backward passes, over all epochs. Rollouts with advantage 0 are included only with a KL penalty in the loss or an entropy bonus.',
    forwarded_tokens: 'All tokens of trained sequences, prompts and observations included.',
    tokens_per_rollout: 'Mean number of sampled tokens per finished rollout.',
    sequence_length_max: 'Length of the longest sequence with a nonzero advantage.',
  }),
  ...define('number', {
    turns_mean: 'Mean number of generations per finished rollout.',
    learning_rate: 'Learning rate in this step.',
    loss: 'Policy loss plus KL and entropy terms, mean over optimiser steps.',
    policy_loss: 'The policy term of `loss`.',
    kl_loss: 'The KL term of `loss`, coefficient included.',
    entropy_loss: 'The entropy term of `loss`, coefficient included.',
    grad_norm: 'Norm of the gradient before clipping, mean over optimiser steps.',
    ratio_mean: 'Mean of π / π_old over trained tokens; 0.999 to 1.001 on policy.',
    ratio_min: 'Smallest ratio of a trained token.',
    ratio_max: 'Largest ratio of a trained token.',
    correction_mean: 'Mean weight of truncated importance sampling.',
  }),
  ...define('share', {
    clip_fraction: 'Share of trained tokens whose ratio is outside its bounds.',
    clip_fraction_low: 'Share of trained tokens whose ratio is below the lower bound.',
    clip_fraction_high: 'Share of trained tokens whose ratio is above the upper bound.',
    dual_clip_fraction: 'Share of trained tokens cut by the dual clip.',
    correction_truncated_fraction: 'Share of trained tokens whose importance weight reached the cap.',
    truncated: 'Share of finished rollouts that a length limit cut short.',
    failed: 'Share of rollouts that failed.',
    environment_tokens: 'Share of tokens that the environment wrote, in sequences with a nonzero advantage and without the prompt.',
  }),
  ...define('nats', {
    entropy: 'Mean of -log π of sampled tokens under the policy that sampled them: an estimate of its entropy.',
    approx_kl: 'KL(π_old || π) of the trained tokens, estimated as mean(r - 1 - log r).',
    kl: 'Mean KL estimate of the penalty, clamped, before its coefficient.',
    log_prob_difference_mean: 'Mean |log π trainer - log π server| of trained tokens before the first update; null if another version sampled them.',
    log_prob_difference_max: 'Largest |log π trainer - log π server| of these tokens.',
    probe_difference_mean: "Mean |Δ log-prob| between server and trainer in the publisher's probe of the new version.",
    probe_difference_max: 'Largest |Δ log-prob| in that probe.',
  }),
  ...define('seconds', {
    step_seconds: 'Wall-clock time of the step, without the evaluation and the checkpoint after it.',
    rollouts_seconds: 'Sampling; in asynchronous runs, waiting for it.',
    forward_seconds: 'Forward passes.',
    backward_seconds: 'Backward passes.',
    update_seconds: 'Optimiser steps.',
    publish_seconds: 'Publishing: saving, checking, loading and probing the adapter, then switching.',
    publish_load_seconds: "The server's part of `publish_seconds`: loading the adapter.",
    checkpoint_seconds: 'Writing the checkpoint since the previous line, if there was one.',
    overhead_cpu_seconds: "CPU time of this process during the step: the trainer's own, and all of an embedded engine's.",
  }),
  ...define('tokens/s', {
    sampled_tokens_per_second: 'Sampled tokens divided by `rollouts_seconds`.',
    trained_tokens_per_second: 'Forwarded tokens divided by forward and backward seconds.',
  }),
];

export const EVALUATION_METRICS: readonly MetricDefinition[] = [
  ...define('reward', {
    reward_mean: 'Mean reward of finished rollouts on held-out rows.',
    reward_low: 'Lower end of the 95 % confidence interval of `reward_mean`, clustered by row.',
    reward_high: 'Upper end of the 95 % confidence interval of `reward_mean`.',
  }),
  ...define('count', {
    policy_version: 'Version that was evaluated.',
    rollouts: 'Finished rollouts.',
    rollouts_failed: 'Failed rollouts; no mean includes them.',
  }),
  ...define('tokens', { tokens_per_rollout: 'Mean number of sampled tokens per finished rollout.' }),
  ...define('number', { turns_mean: 'Mean number of generations per finished rollout.' }),
  ...define('share', { truncated: 'Share of finished rollouts that a length limit cut short.' }),
  ...define('seconds', { evaluation_seconds: 'Wall-clock time of the evaluation.' }),
];

/** One line of `metrics.jsonl`. */
export interface MetricsRow {
  readonly kind: 'step' | 'evaluation';
  /** Number of finished steps at the time of measurement; 0 at the start. */
  readonly step: number;
  readonly values: Readonly<Record<string, number | null>>;
}
