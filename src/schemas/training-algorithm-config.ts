/** The tables `[algorithm]` and `[optimizer]` of a training configuration. */
import { count, flag, table } from './config-table.ts';

export const algorithm = table('From rewards to a gradient.', {
  advantage: table('Advantages within a group.', {
    baseline: { enum: ['mean', 'leave_one_out'], default: 'mean', description: 'What is taken off each reward.' },
    std: {
      enum: ['sample', 'population', 'none'],
      default: 'sample',
      description: 'What the difference is divided by: n - 1 (upstream, TRL), n, or nothing (Dr. GRPO).',
    },
    epsilon: { type: 'number', minimum: 0, default: 1e-6, description: 'Added to the deviation. Upstream and verl 1e-6, TRL 1e-4.' },
    singleton: {
      enum: ['raw', 'zero'],
      default: 'zero',
      description: 'A group of which one member is left; such a group is dropped from a step, so this matters to library users only.',
    },
  }),
  loss: table('The policy loss.', {
    objective: {
      enum: ['clip', 'cispo', 'importance_sampling'],
      default: 'clip',
      description: 'PPO and GRPO: clip. MiniMax: cispo. Tinker: importance_sampling.',
    },
    ratio: { enum: ['token', 'sequence'], default: 'token', description: 'Of probabilities, per token or (GSPO) per sequence.' },
    aggregation: {
      enum: ['token_mean', 'sequence_mean', 'sequence_mean_token_sum', 'constant', 'sum'],
      default: 'token_mean',
      description: 'token_mean: upstream, verl, DAPO. sequence_mean: GRPO. constant: Dr. GRPO. sum: Tinker. Always over the whole optimiser step.',
    },
    clip_low: { type: 'number', minimum: 0, maximum: 1, default: 0.2, description: 'The ratio is clipped from 1 - clip_low ...' },
    clip_high: { type: 'number', minimum: 0, default: 0.2, description: '... to 1 + clip_high. DAPO: 0.28.' },
    dual_clip: {
      type: ['number', 'null'],
      exclusiveMinimum: 1,
      default: null,
      description: 'Bound of the ratio where the advantage is negative; 3 in the paper (arXiv 1912.09729). Null: none.',
    },
    ratio_min: { type: 'number', minimum: 0, default: 0, description: 'cispo: lower bound of the weight.' },
    ratio_max: { type: 'number', minimum: 1, default: 5, description: 'cispo: upper bound of the weight.' },
    log_ratio_clamp: {
      type: ['number', 'null'],
      exclusiveMinimum: 0,
      default: 20,
      description: 'log-ratios are kept within ± this, as verl does; null: unbounded, as upstream.',
    },
    max_tokens: {
      type: ['integer', 'null'],
      minimum: 1,
      default: null,
      description: 'constant: the constant. Default: the response tokens of the environment.',
    },
  }),
  kl: table('Distance from the policy at the start.', {
    coefficient: { type: 'number', minimum: 0, default: 0, description: '0: none, and no reference pass. Upstream: 0.001.' },
    estimator: { enum: ['k1', 'k2', 'k3'], default: 'k3', description: "k3 is upstream's low_var_kl." },
    clamp: {
      type: ['number', 'null'],
      exclusiveMinimum: 0,
      default: 10,
      description: 'The estimate of a token is kept within ± this; upstream 10 for k3.',
    },
    against: {
      enum: ['reference', 'old'],
      default: 'reference',
      description: 'The policy that the run began with (the base, or model.initial_adapter on it), or the one that sampled.',
    },
    placement: { enum: ['loss', 'reward'], default: 'loss', description: 'A term of the loss (GRPO), or taken off the reward (PPO).' },
  }),
  correction: table('Truncated importance sampling against the server that sampled; needs old_log_probs = "trainer".', {
    level: { enum: ['none', 'token', 'sequence'], default: 'none', description: 'Weights per token or per sequence.' },
    cap: { type: 'number', exclusiveMinimum: 0, default: 2, description: 'Largest weight.' },
  }),
  old_log_probs: {
    enum: ['sampler', 'trainer'],
    default: 'sampler',
    description: "The ratio's denominator: what the server reported while sampling, or a pass of the trainer before the first update.",
  },
  minibatches: count('Optimiser steps that a batch of groups is split into. Upstream: 10 (512 · 5 rollouts / 256).', 1),
  epochs: count('How often a batch is gone through.', 1),
  entropy_coefficient: { type: 'number', minimum: 0, default: 0, description: 'Weight of the entropy bonus. Upstream: 0.001.' },
  constant_groups: {
    enum: ['drop', 'keep'],
    default: 'drop',
    description:
      'Groups whose rewards are all equal have no advantage. `drop`: they leave the loss and its divisor (DAPO without resampling). `keep`: they count in the divisor, and KL and entropy terms train on them (upstream).',
  },
  negate_advantages: flag('A control: the same run must then get worse. Never of use otherwise.', false),
});

export const optimizer = table('AdamW on the adapter.', {
  learning_rate: {
    type: 'number',
    exclusiveMinimum: 0,
    default: 4e-5,
    description: "LoRA's is about ten times full fine-tuning's (\"LoRA Without Regret\"); 4e-5 in Tinker's Search-R1.",
  },
  schedule: { enum: ['constant', 'linear', 'cosine'], default: 'constant', description: 'After the warm-up.' },
  warmup_steps: count('Steps of linear warm-up.', 0, 0),
  warmup_ratio: {
    type: ['number', 'null'],
    minimum: 0,
    maximum: 1,
    default: null,
    description:
      'The same as a share of `steps`, rounded down: it is turned into warmup_steps when a run starts, and is null from then on. Upstream: 0.285.',
  },
  min_learning_rate: { type: 'number', minimum: 0, default: 0, description: 'Where linear and cosine end.' },
  beta1: { type: 'number', minimum: 0, exclusiveMaximum: 1, default: 0.9, description: 'Adam.' },
  beta2: { type: 'number', minimum: 0, exclusiveMaximum: 1, default: 0.95, description: 'Adam. torch: 0.999; Tinker: 0.95.' },
  epsilon: { type: 'number', minimum: 0, default: 1e-8, description: 'Adam. torch and tinker-cookbook: 1e-8.' },
  weight_decay: { type: 'number', minimum: 0, default: 0, description: 'Decoupled, of the adapter.' },
  max_grad_norm: { type: ['number', 'null'], exclusiveMinimum: 0, default: 1, description: 'Upstream: 1. Null: no clipping.' },
});
