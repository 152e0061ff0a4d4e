import { describe, expect, it } from 'vitest';
import { meanMetric, mergeLossMetrics } from '../../../src/trainer/losses/loss-metrics.ts';
import type { LossMetrics } from '../../../src/trainer/token-loss.ts';

describe('mergeLossMetrics', () => {
  it('sums, weighs means, and keeps the least and the greatest', () => {
    const a: LossMetrics = {
      loss: { merge: 'sum', value: 1 },
      kl: meanMetric(6, 3),
      low: { merge: 'min', value: 2 },
      high: { merge: 'max', value: 2 },
    };
    const b: LossMetrics = {
      loss: { merge: 'sum', value: 4 },
      kl: meanMetric(1, 1),
      low: { merge: 'min', value: 3 },
      high: { merge: 'max', value: 3 },
    };
    expect(mergeLossMetrics([a, b])).toEqual({
      loss: { merge: 'sum', value: 5 },
      kl: { merge: 'mean', value: 7 / 4, weight: 4 },
      low: { merge: 'min', value: 2 },
      high: { merge: 'max', value: 3 },
    });
  });

  it('keeps what only one part measured, whatever its name', () => {
    expect(mergeLossMetrics([{ a: meanMetric(1, 1) }, {}, { constructor: meanMetric(2, 1) }])).toEqual({
      a: meanMetric(1, 1),
      constructor: meanMetric(2, 1),
    });
    expect(mergeLossMetrics([])).toEqual({});
  });

  it('leaves out a mean over nothing', () => {
    const [nothing, own] = [{ a: meanMetric(0, 0) }, { a: meanMetric(3, 2) }];
    expect([mergeLossMetrics([nothing, own]), mergeLossMetrics([own, nothing])]).toEqual([own, own]);
  });

  it('refuses parts that measure the same name differently', () => {
    expect(() => mergeLossMetrics([{ a: { merge: 'sum', value: 1 } }, { a: meanMetric(1, 1) }])).toThrow('Cannot merge a sum with a mean');
    expect(() => mergeLossMetrics([{ a: { merge: 'min', value: 1 } }, { a: { merge: 'max', value: 1 } }])).toThrow('Cannot merge a min with a max');
  });
});
