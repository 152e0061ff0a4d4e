import { describe, expect, it } from 'vitest';
import { assertMeasured, chosenMetric, metricName } from '../../../src/trainer/records/chosen-metric.ts';

const named = (best: string, greaterIsBetter = true) => chosenMetric({ best, greaterIsBetter });

describe('chosenMetric', () => {
  it.each([
    ['auto', 'reward_mean', 'reward_mean'],
    ['none', 'reward_mean', 'reward_mean'],
    ['em', 'rubric/em', 'em'],
    ['rubric/em', 'rubric/em', 'em'],
    ['reward/qa', 'reward/qa', 'reward/qa'],
    ['truncated', 'truncated', 'truncated'],
  ])('of %s is %s, which a user calls %s', (best, metric, name) => {
    expect(named(best)).toEqual({ metric, isLowerBetter: false });
    expect(metricName(metric)).toBe(name);
  });

  it('is lower for the better if so asked', () => {
    expect(named('em', false)).toEqual({ metric: 'rubric/em', isLowerBetter: true });
  });
});

describe('assertMeasured', () => {
  const values = {
    rollouts: 4,
    reward_mean: 1,
    reward_low: 0,
    'rubric/em': 0.5,
    'reward/qa': 1,
    'stop/completed': 4,
    truncated: 0,
  };
  const asserted = (best: string, found: Record<string, number | null> = values, earlier: Record<string, number | null>[] = []) =>
    assertMeasured(
      best,
      named(best),
      found,
      earlier.map((each) => ({ kind: 'evaluation', step: 0, values: each })),
    );

  it('names the metrics that there are', () => {
    expect(() => asserted('me')).toThrow(
      /^checkpoint\.best is "me", but the evaluation has no metric of this name.*; use auto, reward, validation_loss, none, or one of em, reward\/qa, truncated$/,
    );
  });

  it('passes a metric that the evaluation has, that an earlier one had, or that none can have because all rollouts failed', () => {
    for (const best of ['em', 'rubric/em', 'reward/qa', 'truncated', 'auto', 'none']) expect(() => asserted(best)).not.toThrow();
    expect(() => asserted('f1', values, [{ 'rubric/f1': 1 }])).not.toThrow();
    expect(() => asserted('f1', { rollouts: 0, reward_mean: null })).not.toThrow();
  });
});
