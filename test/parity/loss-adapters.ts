/** Adapters for losses and advantages on ragged sequences: torch's autograd, self-play's losses, plain formulas. */
import { groupAdvantages } from '../../src/trainer/credit/group-advantages.ts';
import { scopeAdvantages } from '../../src/trainer/credit/scope-advantages.ts';
import type { Aggregation } from '../../src/trainer/losses/aggregation.ts';
import type { KlEstimator } from '../../src/trainer/losses/kl.ts';
import type { LossMetrics } from '../../src/trainer/token-loss.ts';
import { nllLoss } from '../../src/trainer/losses/nll-loss.ts';
import { type Objective, ratioLoss, type RatioLossConfig } from '../../src/trainer/losses/ratio-loss.ts';
import { type ByRole, rpgLoss, type RpgLossConfig } from '../../src/trainer/losses/rpg-loss.ts';
import { type MaskedBatch, unmasked } from './masked-batch.ts';
import { flat, maskOf, offsetsOf, type Rows, rowsOf } from './ragged-rows.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface AdvantageCase {
  readonly config: { readonly method: string; readonly std?: 'sample' | 'population'; readonly eps?: number };
  readonly inputs: { readonly rewards: readonly number[] };
}

const groupOutcomes: Adapter = {
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
      const { batch, counts, scatter } = unmasked(lossBatch(inputs));
      const { loss, gradient, metrics } = ratioLoss(lossConfig(ratio, config)).evaluate(batch, counts);
      const listed = listedMetrics({ metrics, tokens: counts.tokens }, inputs, output);
      return { loss, grad: rowsOf(scatter(gradient), inputs.new_logp), metrics: listed };
    },
  };
}

function lossConfig(ratio: 'token' | 'sequence', c: LossConfig): RatioLossConfig {
  return {
    ratio,
    objective: objectiveOf(c),
    logRatioClamp: c.log_ratio_clamp ?? null,
    correction: c.tis_cap === undefined ? null : { level: c.tis_level!, mode: 'truncate', min: 0, max: c.tis_cap },
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
function lossBatch({ new_logp, mask, old_logp, ref_logp, sampler_logp, advantages: given }: TorchCase['inputs']): MaskedBatch {
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

const METRICS: Readonly<Record<string, string>> = {
  mean_ratio: 'ratio_mean',
  min_ratio: 'ratio_min',
  max_ratio: 'ratio_max',
  approx_kl_k1: 'approx_kl_k1',
  approx_kl_k3: 'approx_kl',
  clip_fraction: 'clip_fraction',
  clip_fraction_low: 'clip_fraction_low',
  clip_fraction_high: 'clip_fraction_high',
  dual_clip_fraction: 'dual_clip_fraction',
  mean_sequence_ratio: 'sequence_ratio_mean',
  clip_fraction_sequences: 'clip_fraction_sequences',
  tis_mean: 'correction_mean',
  tis_min: 'correction_min',
  tis_max: 'correction_max',
  tis_truncated_fraction: 'correction_outside_fraction',
  mismatch_k1: 'correction_mismatch',
  kl_mean: 'kl',
};

/** Our metrics under the listed names. The file of a KL term lists ratios too, but not the log-probs behind them. */
function listedMetrics(
  { metrics, tokens }: { readonly metrics: LossMetrics; readonly tokens: number },
  { old_logp, sampler_logp }: TorchCase['inputs'],
  output: unknown,
): Record<string, unknown> {
  const listed = (output as { metrics: Readonly<Record<string, unknown>> }).metrics;
  const isKnown = (name: string) => old_logp !== undefined || sampler_logp !== undefined || name === 'kl_mean';
  const actual = (name: string) => (name === 'tokens' ? tokens : (metrics[METRICS[name]!]?.value ?? null));
  return Object.fromEntries(Object.entries(listed).map(([name, value]) => [name, name === 'tokens' || isKnown(name) ? actual(name) : value]));
}

interface RpgCase {
  readonly config: {
    readonly ratio: RpgLossConfig['ratio'];
    readonly log_ratio_clamp: number | null;
    readonly agg: string;
    readonly beta: ByRole;
    readonly weight: ByRole;
  };
  readonly inputs: {
    readonly new_logp: Rows;
    readonly old_logp: Rows;
    readonly mask: Rows;
    readonly rewards: readonly number[];
    readonly roles: readonly string[];
  };
}

const rpg: Adapter = {
  actual: ({ config: { ratio, log_ratio_clamp, agg, beta, weight }, inputs }: RpgCase) => {
    const { new_logp, old_logp, rewards, roles } = inputs;
    // Tokens without a finite log-prob leave the mask, as the trainer leaves them out of its targets.
    const isKnown = (i: number, t: number) => Number.isFinite(new_logp[i]![t]) && Number.isFinite(old_logp[i]![t]);
    const mask = inputs.mask.map((row, i) => row.map((bit, t) => (isKnown(i, t) ? bit : 0)));
    const advantages = flat(new_logp.map((row, i) => row.map(() => rewards[i]!)));
    const { batch, counts, scatter } = unmasked({
      offsets: offsetsOf(new_logp),
      mask: maskOf(mask),
      logProbs: flat(new_logp),
      oldLogProbs: flat(old_logp),
      advantages,
      roles,
    });
    const aggregation = agg === 'role-token-mean' ? ({ kind: 'role_token_mean' } as const) : aggregationOf({ agg });
    const { loss, gradient, metrics } = rpgLoss({ ratio, logRatioClamp: log_ratio_clamp, beta, weight, aggregation }).evaluate(batch, counts);
    const byRole = Object.keys(beta).flatMap((role) => {
      const [ratioMean, kl] = [metrics[`ratio_mean/${role}`], metrics[`approx_kl_k1/${role}`]];
      return ratioMean && kl ? [[`${role}_mean_ratio`, ratioMean.value] as const, [`${role}_kl_k1`, kl.value] as const] : [];
    });
    const dropped = inputs.mask.flat().reduce((sum, bit) => sum + bit, 0) - counts.tokens;
    return { loss, grad: rowsOf(scatter(gradient), new_logp), metrics: { tokens: counts.tokens, dropped, ...Object.fromEntries(byRole) } };
  },
};

interface SeedCase {
  readonly config: { readonly alpha: number };
  readonly inputs: { readonly new_logp: Rows; readonly parts: readonly (readonly ('question' | 'solution' | 'answer')[])[] };
}

const seedSft: Adapter = {
  actual: ({ config: { alpha }, inputs: { new_logp, parts } }: SeedCase) => {
    const layout = { offsets: offsetsOf(new_logp), mask: Uint8Array.from(parts.flat(), (part) => Number(part !== 'question')) };
    const advantages = Float64Array.from(parts.flat(), (part) => (part === 'answer' ? alpha : 1));
    const { batch, counts, scatter } = unmasked({ ...layout, logProbs: flat(new_logp), advantages });
    const { loss, gradient } = nllLoss({ kind: 'sequence_mean', within: 'sum', countEmpty: true }).evaluate(batch, counts);
    return { loss, grad: rowsOf(scatter(gradient), new_logp) };
  },
};

interface RoleTaskInput {
  readonly rewards: readonly number[];
  readonly roles: readonly string[];
  readonly tasks: readonly string[];
  readonly lengths: readonly number[];
  readonly by: 'role' | 'role_task';
  readonly weighting: 'sequence' | 'token';
}

const roleTaskAdvantages: Adapter = {
  actual: ({ rewards, roles, tasks, lengths, by, weighting }: RoleTaskInput) => {
    const all = rewards.map(() => 0);
    const keys = rewards.map((_, i) => (by === 'role' ? roles[i]! : JSON.stringify([roles[i], tasks[i]])));
    for (const members of Map.groupBy(rewards.keys(), (i) => keys[i]!).values()) {
      const scope = members.map((i) => ({ reward: rewards[i]!, tokens: lengths[i]! }));
      const { advantages: own } = scopeAdvantages(scope, { weighting, std: 'sample', epsilon: 1e-6 });
      members.forEach((i, k) => (all[i] = own[k]!));
    }
    return all;
  },
};

const TOKEN_LOSSES = ['ppo_token_mean', 'ppo_seq_mean_token_mean', 'ppo_seq_mean_token_sum', 'ppo_constant_norm', 'ppo_asymmetric', 'ppo_dual_clip'];
const OTHER_LOSSES = ['cispo', 'importance_sampling', 'tis', 'kl_k1', 'kl_k2', 'kl_k3', 'grpo_combined'];

export const lossAdapters: Readonly<Record<string, Adapter>> = {
  advantages: groupOutcomes,
  ...Object.fromEntries([...TOKEN_LOSSES, ...OTHER_LOSSES].map((name) => [name, lossAdapter('token')])),
  gspo: lossAdapter('sequence'),
  tr_rpg: rpg,
  seed_sft: seedSft,
  role_task_advantages: roleTaskAdvantages,
};
