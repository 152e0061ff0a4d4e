import { CREDIT_PREFIX, MEASURED_CREDIT } from '../credit.ts';

/**
 * Name, unit and definition of every metric of `metrics.jsonl`. The writer accepts no other name, and `docs/metrics.md` is generated from this table. A
 * line is a training step (`kind` = "step"), an evaluation on held-out rows ("evaluation") or a validation on held-out demonstrations ("validation"); a metric that was not measured is null or absent.
 */
export interface MetricDefinition {
  readonly name: string;
  readonly unit: 'nats' | 'tokens' | 'share' | 'seconds' | 'count' | 'reward' | 'tokens/s' | 'number';
  readonly definition: string;
}

/** Rewards and metrics of the environment's rubric: `rubric/<name>`, the mean over finished rollouts. */
export const RUBRIC_PREFIX = 'rubric/';

/**
 * `reward/<task>`: the mean reward of the finished rollouts of a task, if rows have tasks; `reward/<role>` and `reward/<role>/<task>` if a source plays several
 * roles.
 */
export const TASK_PREFIX = 'reward/';

/** `stop/<condition>`: the number of rollouts that ended so, failed ones included, of a step or an evaluation. */
export const STOP_PREFIX = 'stop/';

/**
 * Metrics of the losses other than the main one: `loss/<name>/<metric>`; `loss/<name>/loss` is its share of `loss`. Of the main loss (`loss/policy/<metric>`), only
 * those that are not listed below: a module's own, or a role's.
 */
export const LOSS_PREFIX = 'loss/';

/** Metrics of the main loss without a prefix. */
export const MAIN_LOSS_METRICS: ReadonlySet<string> = new Set([
  'policy_loss',
  'kl_loss',
  'entropy_loss',
  'rpg_loss',
  'nll',
  'kl',
  'approx_kl',
  'approx_kl_k1',
  'ratio_mean',
  'ratio_min',
  'ratio_max',
  'sequence_ratio_mean',
  'clip_fraction',
  'clip_fraction_low',
  'clip_fraction_high',
  'dual_clip_fraction',
  'clip_fraction_sequences',
  'correction_mean',
  'correction_min',
  'correction_max',
  'correction_outside_fraction',
  'correction_mismatch',
]);

/** Metrics that a source of the environment or the user defines. */
export const SOURCE_PREFIX = 'source/';

/** Prefixes of metrics whose names come from elsewhere. */
export const OPEN_PREFIXES: readonly string[] = [RUBRIC_PREFIX, TASK_PREFIX, STOP_PREFIX, LOSS_PREFIX, SOURCE_PREFIX, CREDIT_PREFIX];

const define = (unit: MetricDefinition['unit'], definitions: Readonly<Record<string, string>>): MetricDefinition[] =>
  Object.entries(definitions).map(([name, definition]) => ({ name, unit, definition }));

/** Part of every kind of line, so that their sum is what the lines have cost. */
const SERVICE_COST = {
  service_cost:
    'US dollars for the tokens that the training service has computed since the previous line, by their price in configs/endpoints.toml; absent without a training service or its price.',
};

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
    staleness:
      'Version that was trained minus version that sampled, the oldest one of a rollout that several sampled; the largest in the step, dropped groups left out. With max_staleness of 2 or more: the updates between them.',
    rollouts_mixed: 'Rollouts that several versions sampled, because weights were published meanwhile (publish.in_flight); absent without any.',
    tokens_older: 'Share of the sampled tokens of the step that versions older than the trained one sampled, in steps with `rollouts_mixed`.',
    rollouts: 'Finished rollouts.',
    rollouts_failed: 'Failed rollouts; they leave their group and the loss.',
    rollouts_unplayed: 'Failed rollouts in which the policy had no room for a first token; `rollouts_failed` counts them too.',
    groups: 'Groups with at least two finished rollouts; with another algorithm.advantage.scope than group, the number of its scopes.',
    groups_constant:
      'Groups, or scopes, whose rewards, minus a KL penalty in the reward, are all equal. Their advantages are 0; they count in the divisor unless algorithm.constant_groups = "drop".',
    groups_refilled:
      'Groups that replaced others without different rewards (rollouts.max_refills); with max_staleness of 2 or more, groups that were not taken.',
    groups_stale: 'Groups dropped, or given less weight, because they were older than rollouts.max_staleness.',
    demonstrations: 'Supervised rows.',
    groups_too_small: 'Groups with fewer than two finished rollouts; dropped.',
    groups_trained: 'Groups that have a nonzero advantage and tokens to train.',
    optimizer_steps: 'Optimiser steps applied.',
    optimizer_steps_skipped:
      'Optimiser steps not applied, because the gradient was not finite or the KL was above guards.skip_kl, or without effect on any weight.',
    micro_batches: 'Forward passes with gradient.',
    sequences_dropped:
      'Sequences, of which each branch of a rollout is one, left out of an update because their log-probs or their gradient were not finite; an alarm says so.',
    sampling_attempts:
      "How often the step's rollouts were sampled, refills included; above 1 without refills if too many failed. 0 if none were sampled.",
    trace_rollouts_lost: 'Rollouts so far that `trace.jsonl` lacks because it could not be written; absent if it has all.',
  }),
  ...define('tokens', {
    sampled_tokens: 'Tokens that the policy sampled in finished rollouts.',
    tokens_dropped:
      'Tokens left out of the update because their log-probs under the old or the reference policy are not finite; they leave the divisor of the loss too.',
    trained_tokens:
      'Sampled tokens in the backward passes, over all epochs. Rollouts with advantage 0 are included only with a KL penalty in the loss or an entropy bonus.',
    demonstration_tokens: 'Tokens of supervised rows that have a loss.',
    forwarded_tokens: 'All tokens of trained sequences, prompts and observations included.',
    tokens_per_rollout: 'Mean number of sampled tokens per finished rollout.',
    sequence_length_max: 'Length of the longest sequence with a nonzero advantage, or of the longest supervised row.',
  }),
  ...define('number', {
    turns_mean: 'Mean number of generations per finished rollout.',
    branches_mean: 'Mean number of branches per finished rollout; absent if each has one.',
    learning_rate: 'Learning rate in this step.',
    loss: 'Sum of all losses, weights, KL and entropy terms included, mean over optimiser steps.',
    policy_loss: 'The policy term of `loss`.',
    kl_loss: 'The KL term of `loss`, coefficient included.',
    entropy_loss: 'The entropy term of `loss`, coefficient included.',
    grad_norm: 'Norm of the gradient before clipping, mean over optimiser steps.',
    ratio_mean: 'Mean of π / π_old over trained tokens; 0.999 to 1.001 on policy.',
    ratio_min: 'Smallest ratio of a trained token.',
    ratio_max: 'Largest ratio of a trained token.',
    sequence_ratio_mean: 'Mean ratio of a sequence, of which each branch of a rollout is one; only with algorithm.loss.ratio = "sequence".',
    correction_mean: 'Mean weight of the sampler correction, after truncation or masking.',
    correction_min: 'Smallest weight of the correction.',
    correction_max: 'Largest weight of the correction.',
    rpg_loss: 'The loss `rpg`.',
    ...SERVICE_COST,
  }),
  ...define('reward', {
    [MEASURED_CREDIT[0]]:
      'Mean reward that the environment gave to turns of finished rollouts; absent if it rewarded none. It is not part of `reward_mean`.',
  }),
  ...define('share', {
    [MEASURED_CREDIT[1]]:
      'Share of the turns of finished rollouts that the environment gave a reward; absent if it rewarded none, unless the credit is `turns`.',
    clip_fraction: 'Share of trained tokens whose ratio is outside its bounds.',
    clip_fraction_low: 'Share of trained tokens whose ratio is below the lower bound.',
    clip_fraction_high: 'Share of trained tokens whose ratio is above the upper bound.',
    dual_clip_fraction: 'Share of trained tokens cut by the dual clip.',
    clip_fraction_sequences: 'Share of trained sequences with a clipped token; only with algorithm.loss.ratio = "sequence".',
    correction_outside_fraction: "Share of trained tokens whose weight was outside the correction's bounds.",
    truncated: 'Share of finished rollouts that a length limit cut short.',
    failed: 'Share of rollouts that failed.',
    rollouts_branched: 'Share of finished rollouts with more than one branch; absent if each has one.',
    branch_tokens_left_out:
      'Share of the sampled tokens of these rollouts that lie in branches which algorithm.branches leaves out; absent if each has one.',
    teacher_scored:
      'Share of the sampled tokens of finished rollouts that the teacher scored; the others leave the loss. Only with algorithm.teacher.',
    environment_tokens: 'Share of tokens that the environment wrote, in sequences with a nonzero advantage and without the prompt.',
  }),
  ...define('nats', {
    entropy: 'Mean of -log π of sampled tokens under the policy that sampled them: an estimate of its entropy.',
    approx_kl: 'KL(π_old || π) of the trained tokens, estimated as mean(r - 1 - log r).',
    approx_kl_k1: "The same estimated as mean(-log r), Search-R1's and verl's `ppo_kl`.",
    correction_mismatch: 'Mean of sampler minus old log-prob: how much server and trainer differ.',
    nll: 'Mean of -log π over the trained tokens of a main loss `nll`; that of supervised rows is `loss/sft/nll`.',
    kl: 'Mean KL estimate of the penalty, in the loss or in the reward, clamped, before its coefficient.',
    log_prob_difference_mean: 'Mean |log π trainer - log π server| of trained tokens before the first update; null if another version sampled them.',
    log_prob_difference_max: 'Largest |log π trainer - log π server| of these tokens.',
    update_log_prob_before:
      'Mean log π per token of the shortest sequences of the step, at most eight, before its update; absent if no weight changed.',
    update_log_prob_after: 'The same after the update. A fall of more than 2 nats is an alarm: the learning rate is far too high.',
    teacher_kl:
      "Mean of log π student - log π teacher of the sampled tokens that the teacher scored: KL(student || teacher) per token, estimated on the student's own tokens; only with algorithm.teacher.",
    probe_difference_mean: "Mean |Δ log-prob| between server and trainer in the publisher's probe of the new version.",
    probe_difference_max: 'Largest |Δ log-prob| in that probe.',
  }),
  ...define('seconds', {
    step_seconds:
      'Wall-clock time of the step, without the evaluation and the checkpoint after it. For a step that a resumed run takes again, without what an earlier process did.',
    rollouts_seconds: 'Sampling; in asynchronous runs, waiting for it. Null if all rollouts of the step were on file from an earlier process.',
    forward_seconds: 'Forward passes, the log-probs of a teacher included.',
    teacher_seconds: "Waiting for the teacher's log-probs; a part of `forward_seconds`. Only with algorithm.teacher.",
    backward_seconds: 'Backward passes.',
    update_seconds: 'Optimiser steps.',
    publish_seconds: 'Publishing: saving, checking, loading and probing the adapter, then switching.',
    publish_load_seconds: "The server's part of `publish_seconds`: loading the adapter.",
    checkpoint_seconds: 'Writing the checkpoint since the previous line, if there was one.',
    overhead_cpu_seconds: "CPU time of this process during the step: the trainer's own, and all of an embedded engine's.",
  }),
  ...define('tokens/s', {
    sampled_tokens_per_second:
      'Tokens that this process sampled for the step divided by `rollouts_seconds`. Null if it sampled none: all rollouts were on file, or another program sampled them.',
    trained_tokens_per_second: 'Forwarded tokens divided by forward and backward seconds, without those of a teacher.',
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
    evaluation_setup:
      'A number for what the evaluation was played with: the environment with its arguments and files, the models of roles, the temperature and the rows. Summary, plot, card, comparison and `best/` leave out evaluations with another number than the newest.',
    rollouts: 'Finished rollouts.',
    rollouts_failed: 'Failed rollouts; no mean includes them.',
    rollouts_unplayed: 'Failed rollouts in which the policy had no room for a first token; `rollouts_failed` counts them too.',
  }),
  ...define('tokens', { tokens_per_rollout: 'Mean number of sampled tokens per finished rollout.' }),
  ...define('number', {
    ...SERVICE_COST,
    turns_mean: 'Mean number of generations per finished rollout.',
    branches_mean: 'Mean number of branches per finished rollout; absent if each has one.',
  }),
  ...define('share', { rollouts_branched: 'Share of finished rollouts with more than one branch; absent if each has one.' }),
  ...define('share', { truncated: 'Share of finished rollouts that a length limit cut short.' }),
  ...define('seconds', { evaluation_seconds: 'Wall-clock time of the evaluation; null if all its rollouts were on file from an earlier process.' }),
];

export const VALIDATION_METRICS: readonly MetricDefinition[] = [
  ...define('number', SERVICE_COST),
  ...define('nats', { validation_nll: 'Mean of -log π over the tokens of the held-out demonstrations that have a loss, by their weights.' }),
  ...define('count', { demonstrations: 'Held-out demonstrations.', policy_version: 'Version that was validated.' }),
  ...define('tokens', { demonstration_tokens: 'Tokens of these that have a loss.' }),
  ...define('seconds', { validation_seconds: 'Wall-clock time of the validation.' }),
];
