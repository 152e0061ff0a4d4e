import { describe, expect, it } from 'vitest';
import { judgeReward } from '../../../scripts/proof/run-figures.ts';
import type { ProvenRun } from '../../../scripts/proof/train-once.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const BARS = { start: 0.3, end: 0.75 };

function run(first: Record<string, number>, last: number, isControl = false): ProvenRun {
  const row = (step: number, values: Record<string, number>) => ({ kind: 'evaluation', step, values }) as unknown as MetricsRow;
  return { label: 'seed 0', isControl, rows: [row(0, first), row(10, { reward_mean: last })] } as unknown as ProvenRun;
}

describe('judgeReward', () => {
  it.each<[string, Record<string, number>, number, boolean]>([
    ['a start below its bar', { reward_mean: 0.2, reward_low: 0.15 }, 0.9, true],
    ['a start above its bar by no more than chance explains', { reward_mean: 0.308, reward_low: 0.253 }, 0.917, true],
    ['a start above its bar with its whole interval', { reward_mean: 0.5, reward_low: 0.44 }, 0.9, false],
    ['a start above its bar without an interval', { reward_mean: 0.308 }, 0.9, false],
    ['an end below its bar', { reward_mean: 0.2, reward_low: 0.15 }, 0.7, false],
    ['a start that was not measured', {}, 0.9, false],
  ])('judges %s', (_, first, last, ok) => {
    expect(judgeReward(run(first, last), BARS).ok).toBe(ok);
  });

  it('wants a control to fall', () => {
    expect(judgeReward(run({ reward_mean: 0.2 }, 0.1, true), BARS).ok).toBe(true);
    expect(judgeReward(run({ reward_mean: 0.2 }, 0.2, true), BARS).ok).toBe(false);
  });
});
