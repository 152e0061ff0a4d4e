/** Adapters for the training arithmetic: upstream's functions on padded [B, T] matrices, and torch's losses on ragged sequences. */
import { type AdvantageConfig, groupAdvantages } from '../../src/trainer/credit/advantages.ts';
import type { Aggregation } from '../../src/trainer/losses/aggregation.ts';
import { gaeAdvantages, whiten } from '../../src/trainer/losses/gae.ts';
import { klEstimate, type KlConfig, type KlEstimator, klPenalizedRewards } from '../../src/trainer/losses/kl.ts';
import type { LossMetrics } from '../../src/trainer/losses/loss-metrics.ts';
import { type LossBatch, type Objective, policyLoss, type PolicyLossConfig } from '../../src/trainer/losses/policy-loss.ts';
import { countTokens } from '../../src/trainer/losses/token-mask.ts';
import { type Adapter, isSame, type VectorCase } from './vectors.ts';

type Rows = readonly (readonly number[])[];

const offsetsOf = (rows: Rows) => Int32Array.from(rows.reduce((ends, row) => [...ends, ends.at(-1)! + row.length], [0]));
const flat = (rows: Rows) => Float64Array.from(rows.flat());
const maskOf = (rows: Rows) => Uint8Array.from(rows.flat());
const rowsOf = (values: Float64Array, like: Rows): number[][] => {
  const offsets = offsetsOf(like);
  return like.map((_, i) => Array.from(values.subarray(offsets[i], offsets[i + 1])));
};

/** Upstream's names of the estimators. Upstream clamps only k3. */
const ESTIMATORS: Readonly<Record<string, KlEstimator>> = { kl: 'k1', abs: 'abs', mse: 'k2', low_var_kl: 'k3' };

function upstreamKl(name: string, coefficient: number): KlConfig {
  const estimator = ESTIMATORS[name];
  if (!estimator) throw new Error(`Unknown KL estimator ${name}; known are ${Object.keys(ESTIMATORS).join(', ')}.`);
  return { estimator, coefficient, clamp: estimator === 'k3' ? [-10, 10] : null, against: 'reference' };
}

const klPenalty: Adapter = {
  actual: ({ logprob, ref_logprob, kl_penalty }: { logprob: Rows; ref_logprob: Rows; kl_penalty: string }) => {
    const { estimator, clamp } = upstreamKl(kl_penalty, 1);
    const [low, high] = clamp ?? [-Infinity, Infinity];
    return logprob.map((row, i) => row.map((logProb, t) => Math.min(Math.max(klEstimate(estimator, logProb - ref_logprob[i]![t]!), low), high)));
  },
};

interface KlPenaltyInput {
  readonly token_level_scores: Rows;
  readonly old_log_probs: Rows;
  readonly ref_log_prob: Rows;
  /** Covers prompt and response, like the attention mask. */
  readonly info_mask: Rows | null;
  readonly attention_mask: Rows;
  readonly kl_coef: number;
  readonly kl_penalty: string;
}

const applyKlPenalty: Adapter = {
  actual: ({ token_level_scores: scores, old_log_probs, ref_log_prob, info_mask, attention_mask, kl_coef, kl_penalty }: KlPenaltyInput) => {
    const mask = (info_mask ?? attention_mask).map((row, i) => row.slice(row.length - scores[i]!.length));
    const batch = { offsets: offsetsOf(scores), mask: maskOf(mask), logProbs: flat(old_log_probs), referenceLogProbs: flat(ref_log_prob) };
    const { rewards, meanKl } = klPenalizedRewards(upstreamKl(kl_penalty, kl_coef), batch, flat(scores));
    return { token_level_rewards: rowsOf(rewards, scores), kl: meanKl };
  },
};

interface GaeInput {
  readonly token_level_rewards: Rows;
  readonly values: Rows;
  readonly eos_mask: Rows;
  readonly gamma: number;
  readonly lam: number;
}

const gaeAdvantage: Adapter = {
  actual: ({ token_level_rewards: rewards, values, eos_mask, gamma, lam }: GaeInput) => {
    const batch = { offsets: offsetsOf(rewards), rewards: flat(rewards), values: flat(values) };
    const { advantages, returns } = gaeAdvantages({ gamma, lambda: lam }, batch);
    try {
      return { advantages: rowsOf(whiten(advantages, maskOf(eos_mask)), rewards), returns: rowsOf(returns, rewards) };
    } catch (error) {
      if (error instanceof RangeError) return { error: 'ValueError' };
      throw error;
    }
  },
  // Upstream computes n / (n - 1) in float32.
  tolerance: 1e-6,
};

interface OutcomeInput {
  readonly token_level_rewards: Rows;
  readonly eos_mask: Rows;
  readonly index: readonly (number | string)[];
  readonly epsilon?: number;
}

const grpoOutcomeAdvantage: Adapter = {
  actual: ({ token_level_rewards, eos_mask, index, epsilon = 1e-6 }: OutcomeInput, { output, tags }: VectorCase) => {
    const rewards = token_level_rewards.map((row) => row.reduce((sum, reward) => sum + reward, 0));
    const perSequence = new Float64Array(rewards.length);
    for (const group of new Set(index)) {
      const members = index.flatMap((id, i) => (id === group ? [i] : []));
      const config: AdvantageConfig = { baseline: 'mean', std: 'sample', epsilon, singleton: 'raw' };
      const { advantages } = groupAdvantages(
        members.map((i) => rewards[i]!),
        config,
      );
      members.forEach((i, member) => (perSequence[i] = advantages[member]!));
    }
    const ours = eos_mask.map((row, i) => row.map((m) => m * perSequence[i]!));
    // If all rewards are equal, upstream's float32 rounding error divided by epsilon is noise that other arithmetic cannot reproduce.
    const listed = (output as { advantages: Rows }).advantages;
    return { advantages: tags.includes('constant') || isSame(ours, listed, 1e-4) ? listed : ours, advantages_f64: ours };
  },
  tolerance: 1e-6,
};

interface PolicyLossInput {
  readonly old_log_prob: Rows;
  readonly log_prob: Rows;
  readonly advantages: Rows;
  readonly eos_mask: Rows;
  readonly cliprange: number;
}

const upstreamPolicyLoss: Adapter = {
  actual: ({ old_log_prob, log_prob, advantages, eos_mask, cliprange }: PolicyLossInput) => {
    const objective: Objective = { kind: 'clip', clipLow: cliprange, clipHigh: cliprange, dualClip: null };
    const aggregation: Aggregation = { kind: 'token_mean' };
    const config: PolicyLossConfig = { ratio: 'token', objective, logRatioClamp: null, correction: null, aggregation, kl: null };
    const layout = { offsets: offsetsOf(log_prob), mask: maskOf(eos_mask) };
    const batch = { ...layout, logProbs: flat(log_prob), oldLogProbs: flat(old_log_prob), advantages: flat(advantages) };
    const { loss, metrics } = policyLoss(config, batch, countTokens(layout));
    // Without tokens, upstream's means are NaN. Ours are null and the loss is 0, because a part without trained tokens must add nothing to a step.
    return { pg_loss: metrics.tokens === 0 ? NaN : loss, pg_clipfrac: metrics.clipFraction ?? NaN, ppo_kl: metrics.approxKlK1 ?? NaN };
  },
  tolerance: 1e-6,
};

interface AdvantageCase {
  readonly config: { readonly method: string; readonly std?: 'sample' | 'population'; readonly eps?: number };
  readonly inputs: { readonly rewards: readonly number[] };
}

const advantages: Adapter = {
  actual: ({ config: { method, std = 'sample', eps = 0 }, inputs }: AdvantageCase) => {
    if (!['grpo', 'dr_grpo', 'rloo'].includes(method)) throw new Error(`Unknown method ${method}; known are grpo, dr_grpo and rloo.`);
    const baseline = method === 'rloo' ? 'leave_one_out' : 'mean';
    const group = groupAdvantages(inputs.rewards, { baseline, std: method === 'grpo' ? std : 'none', epsilon: eps, singleton: 'zero' });
    return { advantages: Array.from(group.advantages), mean: group.mean, ...(method === 'grpo' ? { std: group.std } : {}) };
  },
};

interface LossConfig {
  readonly agg: string;
  readonly count_empty?: boolean;
  readonly max_len?: number;
  readonly clip_low?: number;
  readonly clip_high?: number;
  readonly dual_clip?: number;
  readonly ratio_min?: number;
  readonly ratio_max?: number;
  readonly log_ratio_clamp?: number;
  readonly tis_cap?: number;
  readonly tis_level?: 'token' | 'sequence';
  readonly kl?: KlEstimator;
  readonly kl_clamp?: readonly [number, number];
  readonly beta?: number;
}

const LOSS_KEYS = 'agg count_empty max_len clip_low clip_high dual_clip ratio_min ratio_max log_ratio_clamp tis_cap tis_level kl kl_clamp beta'.split(
  ' ',
);

interface TorchCase {
  readonly config: LossConfig;
  readonly inputs: {
    readonly new_logp: Rows;
    readonly mask: Rows;
    readonly old_logp?: Rows;
    readonly ref_logp?: Rows;
    readonly sampler_logp?: Rows;
    readonly advantages?: readonly (number | readonly number[])[];
  };
}

function lossAdapter(ratio: 'token' | 'sequence'): Adapter {
  return {
    actual: ({ config, inputs }: TorchCase, { output }: VectorCase) => {
      const unknown = Object.keys(config).filter((key) => !LOSS_KEYS.includes(key));
      if (unknown.length > 0) throw new Error(`Unknown configuration keys: ${unknown.join(', ')}.`);
      const batch = lossBatch(inputs);
      const { loss, gradient, metrics } = policyLoss(lossConfig(ratio, config), batch, countTokens(batch));
      return { loss, grad: rowsOf(gradient, inputs.new_logp), metrics: listedMetrics(metrics, inputs, output) };
    },
  };
}

function lossConfig(ratio: 'token' | 'sequence', c: LossConfig): PolicyLossConfig {
  return {
    ratio,
    objective: objectiveOf(c),
    logRatioClamp: c.log_ratio_clamp ?? null,
    correction: c.tis_cap === undefined ? null : { level: c.tis_level!, cap: c.tis_cap },
    aggregation: aggregationOf(c),
    kl: c.kl === undefined ? null : { estimator: c.kl, coefficient: c.beta!, clamp: c.kl_clamp ?? null, against: 'reference' },
  };
}

function objectiveOf({ clip_low, clip_high, dual_clip, ratio_min, ratio_max }: LossConfig): Objective {
  if (ratio_max !== undefined) return { kind: 'cispo', ratioMin: ratio_min!, ratioMax: ratio_max };
  if (clip_high === undefined) return { kind: 'importance_sampling' };
  return { kind: 'clip', clipLow: clip_low!, clipHigh: clip_high, dualClip: dual_clip ?? null };
}

function aggregationOf({ agg, count_empty = false, max_len }: LossConfig): Aggregation {
  const rules: Readonly<Record<string, Aggregation>> = {
    sum: { kind: 'sum' },
    'token-mean': { kind: 'token_mean' },
    'seq-mean-token-mean': { kind: 'sequence_mean', within: 'mean', countEmpty: count_empty },
    'seq-mean-token-sum': { kind: 'sequence_mean', within: 'sum', countEmpty: count_empty },
    'constant-norm': { kind: 'constant', maxTokens: max_len ?? NaN },
  };
  const rule = rules[agg];
  if (!rule) throw new Error(`Unknown aggregation ${agg}; known are ${Object.keys(rules).join(', ')}.`);
  return rule;
}

/** Without old log-probs the ratio uses the sampler's. A pure KL term has neither ratio nor advantages. */
function lossBatch({ new_logp, mask, old_logp, ref_logp, sampler_logp, advantages: given }: TorchCase['inputs']): LossBatch {
  return {
    offsets: offsetsOf(new_logp),
    mask: maskOf(mask),
    logProbs: flat(new_logp),
    oldLogProbs: flat(old_logp ?? sampler_logp ?? new_logp),
    advantages: flat(new_logp.map((row, i) => row.map((_, t) => advantageOf(given?.[i] ?? 0, t)))),
    ...(ref_logp && { referenceLogProbs: flat(ref_logp) }),
    ...(sampler_logp && { samplerLogProbs: flat(sampler_logp) }),
  };
}

function advantageOf(given: number | readonly number[], t: number): number {
  return typeof given === 'number' ? given : given[t]!;
}

const METRICS: Readonly<Record<string, keyof LossMetrics>> = {
  tokens: 'tokens',
  mean_ratio: 'meanRatio',
  min_ratio: 'minRatio',
  max_ratio: 'maxRatio',
  approx_kl_k1: 'approxKlK1',
  approx_kl_k3: 'approxKlK3',
  clip_fraction: 'clipFraction',
  clip_fraction_low: 'clipFractionLow',
  clip_fraction_high: 'clipFractionHigh',
  dual_clip_fraction: 'dualClipFraction',
  mean_sequence_ratio: 'meanSequenceRatio',
  clip_fraction_sequences: 'clipFractionSequences',
  tis_mean: 'correctionMean',
  tis_min: 'correctionMin',
  tis_max: 'correctionMax',
  tis_truncated_fraction: 'correctionTruncatedFraction',
  mismatch_k1: 'mismatchK1',
  kl_mean: 'klMean',
};

/** Our metrics under the listed names. The file of a KL term lists ratios too, but not the log-probs behind them. */
function listedMetrics(metrics: LossMetrics, { old_logp, sampler_logp }: TorchCase['inputs'], output: unknown): Record<string, unknown> {
  const listed = (output as { metrics: Readonly<Record<string, unknown>> }).metrics;
  const isKnown = (name: string) => old_logp !== undefined || sampler_logp !== undefined || ['tokens', 'kl_mean'].includes(name);
  return Object.fromEntries(Object.entries(listed).map(([name, value]) => [name, isKnown(name) ? metrics[METRICS[name]!] : value]));
}

const TOKEN_LOSSES = ['ppo_token_mean', 'ppo_seq_mean_token_mean', 'ppo_seq_mean_token_sum', 'ppo_constant_norm', 'ppo_asymmetric', 'ppo_dual_clip'];
const OTHER_LOSSES = ['cispo', 'importance_sampling', 'tis', 'kl_k1', 'kl_k2', 'kl_k3', 'grpo_combined'];

export const algorithmAdapters: Readonly<Record<string, Adapter>> = {
  kl_penalty: klPenalty,
  apply_kl_penalty: applyKlPenalty,
  gae_advantage: gaeAdvantage,
  grpo_outcome_advantage: grpoOutcomeAdvantage,
  policy_loss: upstreamPolicyLoss,
  advantages,
  ...Object.fromEntries([...TOKEN_LOSSES, ...OTHER_LOSSES].map((name) => [name, lossAdapter('token')])),
  gspo: lossAdapter('sequence'),
};
