/** The tables `[algorithm]` and `[optimizer]` of a training configuration. */
import { choice, count, countOrNull, flag, free, number, numberOrNull, positive, share, table, text } from './config-table.ts';
import { byName, filledText, listOf } from './json-schema.ts';
import { teacher } from './training-teacher-config.ts';

export const algorithm = table('How rewards become a gradient.', {
  advantage: table('The credit, which turns rewards into an advantage for every token.', {
    use: {
      ...text(
        '`outcome`: compares the rewards of rollouts, as the other keys say. `turns`: compares those of turns too, which the environment gives (MT-GRPO). `environment`: the credit that the environment brings. Or a module (./my-credit.ts) that exports createCredit, set by args. Default: `environment` if the environment exports createCredit, else `outcome`.',
      ),
      default: 'outcome',
    },
    args: free(
      'Settings of a credit other than `outcome`. turns: estimate (returns or sum), gamma, compare (turn or all), turn_weight. Of a module: its own.',
    ),
    scope: choice(
      ['group', 'role_task', 'role', 'batch', 'none'],
      'group: the rollouts of the same row (GRPO, RLOO). role_task: all rollouts of the batch with the same role and task. role: all rollouts of the batch with the same role. batch: all rollouts of the batch (REINFORCE++). none: the reward itself is the advantage.',
    ),
    baseline: choice(['mean', 'leave_one_out'], 'Subtracted from each reward: the mean of the scope, or of its other members (RLOO; group only).'),
    std: choice(
      ['sample', 'population', 'none'],
      'Standard deviation that divides the difference: with n - 1 (upstream, TRL), with n, or none (Dr. GRPO).',
    ),
    epsilon: number(
      'Added to the standard deviation. Upstream and verl: 1e-6; TRL: 1e-4. Not used with std = "none" or weighting = "token", which adds 1e-8 to the variance.',
      1e-6,
    ),
    weighting: choice(
      ['sequence', 'token'],
      'Scopes above a group: mean and deviation over rollouts, or over their tokens as in REINFORCE++ and verl, where a KL penalty in the reward then counts from each token on.',
    ),
    decay: {
      ...share('Scopes above a group: share of the statistics of earlier batches that is kept at each step. 0: this batch alone.', 0),
      exclusiveMaximum: 1,
    },
  }),
  loss: table('The loss on rollouts. [losses.NAME] adds further ones.', {
    use: {
      ...text(
        '`ratio`: a loss on the importance ratio, set by the other keys. `nll`, `rpg`, or a module (./my-loss.ts) that exports createLoss: set by args.',
      ),
      default: 'ratio',
    },
    args: free('Settings of a loss other than `ratio`, as in [losses.NAME].'),
    objective: choice(['clip', 'cispo', 'importance_sampling'], 'clip: PPO and GRPO. cispo: MiniMax. importance_sampling: Tinker.'),
    ratio: choice(
      ['token', 'sequence'],
      "Importance ratio per token, or per sequence (GSPO), whose default clip is the paper's: clip_low 3e-4, clip_high 4e-4.",
    ),
    aggregation: choice(
      ['token_mean', 'sequence_mean', 'sequence_mean_token_sum', 'constant', 'sum'],
      'token_mean: upstream, verl, DAPO. sequence_mean: GRPO. constant: Dr. GRPO. sum: Tinker. Always over the whole optimiser step.',
    ),
    clip_low: share('clip: lower bound of the ratio, as 1 - clip_low.', 0.2),
    clip_high: number('clip: upper bound of the ratio, as 1 + clip_high. DAPO: 0.28.', 0.2),
    dual_clip: numberOrNull('clip: upper bound of the ratio for negative advantages; 3 in the paper (arXiv 1912.09729). Null: none.', null, {
      exclusiveMinimum: 1,
    }),
    ratio_min: number('cispo: lower bound of the weight.', 0),
    ratio_max: number('cispo: upper bound of the weight.', 5, { minimum: 1 }),
    log_ratio_clamp: numberOrNull('Log-ratios are clamped to ± this, as in verl; null: unbounded, as in upstream.', 20),
    max_tokens: countOrNull(
      "constant: divisor per sequence, in tokens. Default: the environment's limit of response tokens; one of the two must be set.",
    ),
  }),
  kl: table('KL penalty.', {
    coefficient: number('Weight of the penalty. 0: none, and no reference pass. Upstream: 0.001.', 0),
    estimator: choice(['k1', 'k2', 'k3'], "k3 is upstream's low_var_kl.", 'k3'),
    clamp: numberOrNull("A token's estimate is clamped to ± this; upstream: 10 for k3. Null: unbounded.", 10),
    against: choice(
      ['reference', 'old'],
      'reference: the policy at the start of the run (the base, or model.initial_adapter on it). old: the policy that old_log_probs names.',
    ),
    placement: choice(['loss', 'reward'], 'A term of the loss (GRPO), or subtracted from the reward (PPO).'),
  }),
  teacher,
  correction: table(
    'Importance weights between trainer and sampler, for differences of their arithmetic and for stale rollouts; needs old_log_probs = "trainer".',
    {
      level: choice(['none', 'token', 'sequence', 'geometric'], 'One weight per token, the product over the sequence, or its geometric mean.'),
      mode: choice(
        ['truncate', 'mask'],
        'A weight outside the bounds becomes the bound (TIS), or 0, which drops the token or sequence (IcePop, prime-rl).',
      ),
      min: number('Lower bound of a weight; 0: none. prime-rl: 0.125.', 0),
      max: positive('Upper bound of a weight. TRL: 3; prime-rl: 8.', 2),
    },
  ),
  old_log_probs: choice(
    ['sampler', 'trainer'],
    "Denominator of the ratio: the server's log-probs from sampling, or the trainer's from a pass before the first update.",
  ),
  minibatches: count(
    'Number of optimiser steps that a batch of groups is split into, each with its share of every role and task. Upstream: 10 (512 · 5 rollouts / 256).',
    1,
  ),
  epochs: count('Passes over each batch.', 1),
  entropy_coefficient: number('Weight of the entropy bonus. Upstream: 0.001.', 0),
  branches: choice(
    ['all', 'longest', 'last'],
    'The branches that are trained on, of rollouts with several of them (docs/agents.md). longest: the one in which the policy wrote the most tokens, the first of several. last: the one with the last turn of the rollout, as a rule that of the answer. Tokens of other branches have no loss; the reward is that of the whole rollout all the same.',
  ),
  branch_weight: choice(
    ['rollout', 'token'],
    'rollout: the branches of a rollout count as one sequence with the tokens of all, so that its weight does not grow with their number. token: each branch counts as a sequence of its own. token_mean and sum are the same with both.',
  ),
  constant_groups: choice(
    ['keep', 'drop'],
    'Scopes whose rewards are all equal; their advantages are 0. `keep`: they count in the divisor of the loss, so that a step moves the policy less the fewer groups inform it (upstream, TRL, verl), and KL and entropy terms train on them. `drop`: they leave the loss and its divisor: one informative group of eight moves the policy as far as eight (DAPO, which refills them: rollouts.max_refills).',
  ),
  negate_advantages: flag('For control experiments only: with negated advantages the policy must get worse.', false),
});

/** No key but `use` is required: a missing key has its default. */
export const lossTableSchema = {
  type: 'object',
  additionalProperties: false,
  description: 'A further loss, added to the step with its own divisor and metrics.',
  properties: {
    use: text('`nll`, `rpg`, `ratio` (with the settings of [algorithm]), or a module (./my-loss.ts) that exports createLoss.'),
    weight: { type: 'number', description: 'Factor of the loss. Default: 1.' },
    on: {
      enum: ['rollouts', 'demonstrations'],
      description: 'Data of the loss: sampled or given rollouts, or rows of [sft], where it replaces the loss of [sft]. Default: rollouts.',
    },
    roles: { ...listOf(filledText), description: 'Apply the loss to trajectories, or branches, of these roles only. Default: all.' },
    args: free('Settings of the loss. nll: aggregation. rpg: beta (required), ratio, log_ratio_clamp, weight, aggregation. Of a module: its own.'),
  },
} as const;

export const losses = {
  ...byName(lossTableSchema),
  default: {},
  description: 'Losses in addition to algorithm.loss, by name: [losses.imitation] and so on, with the keys below.',
} as const;

export const optimizer = table('AdamW on the adapter.', {
  learning_rate: positive('LoRA needs about ten times that of full fine-tuning ("LoRA Without Regret"). Tinker\'s Search-R1: 4e-5.', 4e-5),
  schedule: choice(['constant', 'linear', 'cosine'], 'Learning rate after the warm-up.'),
  warmup_steps: count('Steps of linear warm-up.', 0, 0),
  warmup_ratio: numberOrNull(
    'Warm-up as a share of `steps`, rounded down. At the start of a run it is converted to warmup_steps and becomes null. Upstream: 0.285.',
    null,
    { minimum: 0, maximum: 1 },
  ),
  min_learning_rate: number('Final value of linear and cosine.', 0),
  beta1: number('Decay of the first moment.', 0.9, { minimum: 0, exclusiveMaximum: 1 }),
  beta2: number('Decay of the second moment. torch: 0.999; Tinker: 0.95.', 0.95, { minimum: 0, exclusiveMaximum: 1 }),
  epsilon: number(
    'Added to the denominator. Without it the first step is 0/0, because the gradient of A is exactly 0. torch and tinker-cookbook: 1e-8.',
    1e-8,
    {
      minimum: 1e-30,
    },
  ),
  weight_decay: number('Decoupled weight decay of the adapter.', 0),
  max_grad_norm: numberOrNull('The gradient is clipped to this norm. Upstream: 1. Null: no clipping.', 1),
});
