import { describe, expect, it } from 'vitest';
import { rewardByTokens, tokensUntil } from '../../../scripts/proof/distill.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const step = (at: number, tokens: number): MetricsRow => ({ kind: 'step', step: at, values: { sampled_tokens: tokens, reward_mean: 1 } });
const evaluation = (at: number, reward: number): MetricsRow => ({ kind: 'evaluation', step: at, values: { reward_mean: reward } });
const rows = [evaluation(0, 0.1), step(1, 100), step(2, 50), evaluation(2, 0.5), step(3, 30), evaluation(3, 0.4)];

describe('rewardByTokens', () => {
  it('has each held-out reward with the tokens that training had sampled by then, and not those of evaluations', () => {
    expect(rewardByTokens({ rows })).toEqual([
      { tokens: 0, reward: 0.1 },
      { tokens: 150, reward: 0.5 },
      { tokens: 180, reward: 0.4 },
    ]);
  });
});

describe('tokensUntil', () => {
  it('is where a reward was first had, and null where it never was', () => {
    expect([0.1, 0.3, 0.5, 0.6].map((reward) => tokensUntil({ rows }, reward))).toEqual([0, 150, 150, null]);
  });
});
