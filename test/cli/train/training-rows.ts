/** Rows of a training run as the nano model makes them, the same every time; the shape of the curves is measured, the digits are made up. */
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

/** Looks random and is the same everywhere, in [-1, 1]. */
function wiggle(n: number): number {
  let bits = Math.imul(n + 0x9e3779b9, 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 31 - 1;
}

export function trainingRows({
  steps = 30,
  seed = 0,
  rises = true,
}: { readonly steps?: number; readonly seed?: number; readonly rises?: boolean } = {}): MetricsRow[] {
  const rows: MetricsRow[] = [evaluationRow(0, 0.229 + 0.02 * wiggle(seed))];
  for (let step = 1; step <= steps; step++) {
    rows.push(stepRow(step, { steps, seed, rises }));
    if (step % 5 === 0) rows.push(evaluationRow(step, heldOut(step, rises) + 0.01 * wiggle(step + seed * 31)));
  }
  return rows;
}

const heldOut = (step: number, rises: boolean) =>
  rises ? 0.229 + 0.751 / (1 + Math.exp(-(step - 6) / 1.8)) - 0.026 : 0.025 + 0.204 * Math.exp(-step / 4);
const inUnit = (value: number) => Math.min(1, Math.max(0, value));

function stepRow(step: number, { steps, seed, rises }: { steps: number; seed: number; rises: boolean }): MetricsRow {
  const noise = wiggle(step * 7 + seed * 101);
  const sample = 2.4 + 0.5 * noise;
  const forward = 0.35 + 0.05 * noise;
  const backward = 0.5 - 0.05 * noise;
  const constant = Math.max(0, Math.round((step / steps) * 5 + noise));
  return {
    kind: 'step',
    step,
    values: {
      reward_mean: inUnit(heldOut(step, rises) + 0.07 * noise),
      reward_std: 0.3,
      policy_version: step,
      staleness: 0,
      rollouts: 64,
      rollouts_failed: step === 4 ? 2 : 0,
      groups: 8,
      groups_constant: constant,
      groups_too_small: 0,
      groups_trained: 8 - constant,
      optimizer_steps: step === 9 ? 0 : 1,
      optimizer_steps_skipped: step === 9 ? 1 : 0,
      sampled_tokens: 1600 + Math.round(200 * noise),
      trained_tokens: 1200 + Math.round(150 * noise),
      forwarded_tokens: 11_000 + Math.round(900 * noise),
      tokens_per_rollout: 25 + 3 * noise,
      turns_mean: 1.9,
      learning_rate: 1e-3,
      grad_norm: 0.4 + 0.25 * Math.abs(noise),
      ratio_mean: 1,
      entropy: 0.06 + 0.35 * Math.exp(-step / 9) + 0.01 * noise,
      approx_kl: 1e-5 * (1 + noise * noise),
      kl: 0.003 * step * (1 + 0.2 * noise),
      log_prob_difference_mean: 2.1e-6 * (1 + 0.4 * noise),
      log_prob_difference_max: 1.6e-5 * (1 + 0.4 * noise),
      truncated: 0.02,
      step_seconds: sample + forward + backward + 0.05 + 0.11 + 0.04,
      rollouts_seconds: sample,
      forward_seconds: forward,
      backward_seconds: backward,
      update_seconds: 0.05,
      publish_seconds: 0.11,
      checkpoint_seconds: step % 10 === 0 ? 0.06 : null,
      overhead_cpu_seconds: 0.09,
      sampled_tokens_per_second: 1600 / sample,
      trained_tokens_per_second: 11_000 / (forward + backward),
    },
  };
}

function evaluationRow(step: number, reward: number): MetricsRow {
  const half = 1.96 * Math.sqrt((reward * (1 - reward)) / 240);
  return {
    kind: 'evaluation',
    step,
    values: {
      reward_mean: inUnit(reward),
      reward_low: inUnit(reward - half),
      reward_high: inUnit(reward + half),
      policy_version: step,
      rollouts: 240,
      rollouts_failed: 0,
      tokens_per_rollout: 25,
      turns_mean: 1.9,
      truncated: 0.01,
      evaluation_seconds: 5.1,
    },
  };
}

/** Supervised steps with the demonstrations of `held_out`, whose loss is lowest after two thirds of them. */
export function supervisedRows({ steps = 12, isEvaluated = false }: { readonly steps?: number; readonly isEvaluated?: boolean } = {}): MetricsRow[] {
  const rows: MetricsRow[] = [...(isEvaluated ? [evaluationRow(0, 0.2)] : []), validationRow(0, 1.5)];
  for (let step = 1; step <= steps; step++) {
    rows.push(demonstratedRow(step));
    if (step % 4 === 0) rows.push(validationRow(step, 0.5 + Math.abs(step - (2 * steps) / 3) / 16));
  }
  return isEvaluated ? [...rows, evaluationRow(steps, 0.6)] : rows;
}

function demonstratedRow(step: number): MetricsRow {
  const values = { demonstrations: 8, demonstration_tokens: 200, trained_tokens: 200, forwarded_tokens: 1500, optimizer_steps: 1, groups_trained: 0 };
  const seconds = { step_seconds: 1, rollouts_seconds: 0, forward_seconds: 0.4, backward_seconds: 0.5, update_seconds: 0.1, publish_seconds: 0 };
  const none = { rollouts: 0, rollouts_failed: 0, groups: 0, sampled_tokens: 0, reward_mean: null };
  return { kind: 'step', step, values: { ...values, ...seconds, ...none, 'loss/sft/nll': 1.4 / step, learning_rate: 1e-3, grad_norm: 0.3 } };
}

const validationRow = (step: number, nll: number): MetricsRow => ({
  kind: 'validation',
  step,
  values: { validation_nll: nll, demonstrations: 4, demonstration_tokens: 90, validation_seconds: 0.2 },
});
