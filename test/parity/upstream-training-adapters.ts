/** Adapters for upstream's arithmetic of training, whose functions take padded [B, T] matrices. */
import { type AdvantageConfig, groupAdvantages } from '../../src/trainer/credit/group-advantages.ts';
import type { Aggregation } from '../../src/trainer/losses/aggregation.ts';
import { klEstimate, type KlConfig, type KlEstimator, klPenalties } from '../../src/trainer/losses/kl.ts';
import { type Objective, ratioLoss, type RatioLossConfig } from '../../src/trainer/losses/ratio-loss.ts';
import { gaeAdvantages, whiten } from './gae.ts';
import { unmasked } from './masked-batch.ts';
import { flat, maskOf, offsetsOf, type Rows, rowsOf } from './ragged-rows.ts';
import { type Adapter, isSame, type VectorCase } from './vectors.ts';

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
    const penalties = klPenalties(upstreamKl(kl_penalty, kl_coef), { logProbs: flat(old_log_probs), referenceLogProbs: flat(ref_log_prob) });
    const perRow = rowsOf(penalties, scores).map((row, i) => row.map((penalty, t) => (mask[i]![t] === 1 ? penalty : 0)));
    const tokens = mask.map((row) => row.reduce((sum, bit) => sum + bit, 0));
    const means = perRow.flatMap((row, i) => (tokens[i] === 0 ? [] : [row.reduce((sum, penalty) => sum + penalty, 0) / tokens[i]! / kl_coef]));
    const rewards = scores.map((row, i) => row.map((score, t) => score - perRow[i]![t]!));
    return { token_level_rewards: rewards, kl: means.reduce((sum, mean) => sum + mean, 0) / Math.max(means.length, 1) };
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
    const config: RatioLossConfig = { ratio: 'token', objective, logRatioClamp: null, correction: null, aggregation, kl: null };
    const layout = { offsets: offsetsOf(log_prob), mask: maskOf(eos_mask) };
    const { batch, counts } = unmasked({ ...layout, logProbs: flat(log_prob), oldLogProbs: flat(old_log_prob), advantages: flat(advantages) });
    const { loss, metrics } = ratioLoss(config).evaluate(batch, counts);
    // Without tokens, upstream's means are NaN. Ours are absent and the loss is 0, because a part without trained tokens must add nothing to a step.
    return {
      pg_loss: counts.tokens === 0 ? NaN : loss,
      pg_clipfrac: metrics['clip_fraction']?.value ?? NaN,
      ppo_kl: metrics['approx_kl_k1']?.value ?? NaN,
    };
  },
  tolerance: 1e-6,
};

export const upstreamTrainingAdapters: Readonly<Record<string, Adapter>> = {
  kl_penalty: klPenalty,
  apply_kl_penalty: applyKlPenalty,
  gae_advantage: gaeAdvantage,
  grpo_outcome_advantage: grpoOutcomeAdvantage,
  policy_loss: upstreamPolicyLoss,
};
