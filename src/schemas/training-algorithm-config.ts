/** The tables `[algorithm]` and `[optimizer]` of a training configuration. */
import { count, flag, table } from './config-table.ts';

export const algorithm = table('How rewards become a gradient.', {
  advantage: table('Advantages within a group.', {
    baseline: {
      enum: ['mean', 'leave_one_out'],
      default: 'mean',
      description: 'Subtracted from each reward: the mean of the group, or of its other members (RLOO).',
    },
    std: {
      enum: ['sample', 'population', 'none'],
      default: 'sample',
      description: 'Standard deviation that divides the difference: with n - 1 (upstream, TRL), with n, or none (Dr. GRPO).',
    },
    epsilon: { type: 'number', minimum: 0, default: 1e-6, description: 'Added to the standard deviation. Upstream and verl: 1e-6; TRL: 1e-4.' },
    singleton: {
      enum: ['raw', 'zero'],
      default: 'zero',
      description: 'Advantage of a group with one member: its raw reward, or 0. Runs drop such groups, so it matters only to library users.',
    },
  }),
  loss: table('The policy loss.', {
    objective: {
      enum: ['clip', 'cispo', 'importance_sampling'],
      default: 'clip',
      description: 'clip: PPO and GRPO. cispo: MiniMax. importance_sampling: Tinker.',
    },
    ratio: { enum: ['token', 'sequence'], default: 'token', description: 'Importance ratio per token, or per sequence (GSPO).' },
    aggregation: {
      enum: ['token_mean', 'sequence_mean', 'sequence_mean_token_sum', 'constant', 'sum'],
      default: 'token_mean',
      description: 'token_mean: upstream, verl, DAPO. sequence_mean: GRPO. constant: Dr. GRPO. sum: Tinker. Always over the whole optimiser step.',
    },
    clip_low: { type: 'number', minimum: 0, maximum: 1, default: 0.2, description: 'clip: lower bound of the ratio, as 1 - clip_low.' },
    clip_high: { type: 'number', minimum: 0, default: 0.2, description: 'clip: upper bound of the ratio, as 1 + clip_high. DAPO: 0.28.' },
    dual_clip: {
      type: ['number', 'null'],
      exclusiveMinimum: 1,
      default: null,
      description: 'clip: upper bound of the ratio for negative advantages; 3 in the paper (arXiv 1912.09729). Null: none.',
    },
    ratio_min: { type: 'number', minimum: 0, default: 0, description: 'cispo: lower bound of the weight.' },
    ratio_max: { type: 'number', minimum: 1, default: 5, description: 'cispo: upper bound of the weight.' },
    log_ratio_clamp: {
      type: ['number', 'null'],
      exclusiveMinimum: 0,
      default: 20,
      description: 'Log-ratios are clamped to ± this, as in verl; null: unbounded, as in upstream.',
    },
    max_tokens: {
      type: ['integer', 'null'],
      minimum: 1,
      default: null,
      description: "constant: divisor per sequence, in tokens. Default: the environment's limit of response tokens.",
    },
  }),
  kl: table('KL penalty.', {
    coefficient: { type: 'number', minimum: 0, default: 0, description: 'Weight of the penalty. 0: none, and no reference pass. Upstream: 0.001.' },
    estimator: { enum: ['k1', 'k2', 'k3'], default: 'k3', description: "k3 is upstream's low_var_kl." },
    clamp: {
      type: ['number', 'null'],
      exclusiveMinimum: 0,
      default: 10,
      description: "A token's estimate is clamped to ± this; upstream: 10 for k3. Null: unbounded.",
    },
    against: {
      enum: ['reference', 'old'],
      default: 'reference',
      description:
        'reference: the policy at the start of the run (the base, or model.initial_adapter on it). old: the policy that old_log_probs names.',
    },
    placement: { enum: ['loss', 'reward'], default: 'loss', description: 'A term of the loss (GRPO), or subtracted from the reward (PPO).' },
  }),
  correction: table('Truncated importance sampling, which corrects for differences between server and trainer; needs old_log_probs = "trainer".', {
    level: { enum: ['none', 'token', 'sequence'], default: 'none', description: 'One weight per token or per sequence.' },
    cap: { type: 'number', exclusiveMinimum: 0, default: 2, description: 'Largest weight.' },
  }),
  old_log_probs: {
    enum: ['sampler', 'trainer'],
    default: 'sampler',
    description: "Denominator of the ratio: the server's log-probs from sampling, or the trainer's from a pass before the first update.",
  },
  minibatches: count('Number of optimiser steps that a batch of groups is split into. Upstream: 10 (512 · 5 rollouts / 256).', 1),
  epochs: count('Passes over each batch.', 1),
  entropy_coefficient: { type: 'number', minimum: 0, default: 0, description: 'Weight of the entropy bonus. Upstream: 0.001.' },
  constant_groups: {
    enum: ['drop', 'keep'],
    default: 'drop',
    description:
      'Groups whose rewards are all equal; their advantages are 0. `drop`: they leave the loss and its divisor (DAPO without resampling). `keep`: they count in the divisor, and KL and entropy terms train on them (upstream).',
  },
  negate_advantages: flag('For control experiments only: with negated advantages the policy must get worse.', false),
});

export const optimizer = table('AdamW on the adapter.', {
  learning_rate: {
    type: 'number',
    exclusiveMinimum: 0,
    default: 4e-5,
    description: 'LoRA needs about ten times that of full fine-tuning ("LoRA Without Regret"). Tinker\'s Search-R1: 4e-5.',
  },
  schedule: { enum: ['constant', 'linear', 'cosine'], default: 'constant', description: 'Learning rate after the warm-up.' },
  warmup_steps: count('Steps of linear warm-up.', 0, 0),
  warmup_ratio: {
    type: ['number', 'null'],
    minimum: 0,
    maximum: 1,
    default: null,
    description:
      'Warm-up as a share of `steps`, rounded down. At the start of a run it is converted to warmup_steps and becomes null. Upstream: 0.285.',
  },
  min_learning_rate: { type: 'number', minimum: 0, default: 0, description: 'Final value of linear and cosine.' },
  beta1: { type: 'number', minimum: 0, exclusiveMaximum: 1, default: 0.9, description: 'Decay of the first moment.' },
  beta2: { type: 'number', minimum: 0, exclusiveMaximum: 1, default: 0.95, description: 'Decay of the second moment. torch: 0.999; Tinker: 0.95.' },
  epsilon: { type: 'number', minimum: 0, default: 1e-8, description: 'Added to the denominator. torch and tinker-cookbook: 1e-8.' },
  weight_decay: { type: 'number', minimum: 0, default: 0, description: 'Decoupled weight decay of the adapter.' },
  max_grad_norm: {
    type: ['number', 'null'],
    exclusiveMinimum: 0,
    default: 1,
    description: 'The gradient is clipped to this norm. Upstream: 1. Null: no clipping.',
  },
});
