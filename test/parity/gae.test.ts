import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gaeAdvantages, whiten } from './gae.ts';

const numbers = fc.array(fc.double({ min: -2, max: 2, noNaN: true }), { minLength: 1, maxLength: 10 });

describe('gaeAdvantages', () => {
  it('is the discounted sum of the later rewards less the value where λ is 1', () => {
    fc.assert(
      fc.property(numbers, fc.constantFrom(1, 0.9, 0), (rewards, gamma) => {
        const values = Float64Array.from(rewards, (r) => r / 3 - 0.5);
        const batch = { offsets: Int32Array.of(0, rewards.length), rewards: Float64Array.from(rewards), values };
        const { advantages, returns } = gaeAdvantages({ gamma, lambda: 1 }, batch);
        rewards.forEach((_, t) => {
          const expected = rewards.slice(t).reduce((sum, reward, later) => sum + gamma ** later * reward, 0);
          expect(returns[t]).toBeCloseTo(expected, 12);
          expect(advantages[t]).toBeCloseTo(expected - values[t]!, 12);
        });
      }),
    );
  });

  it('is the one-step error where λ is 0, and nothing passes from one sequence into the one before', () => {
    const batch = { offsets: Int32Array.of(0, 2, 2, 3), rewards: Float64Array.of(0, 1, 9), values: Float64Array.of(0.5, 0.25, 4) };
    const { advantages } = gaeAdvantages({ gamma: 1, lambda: 0 }, batch);
    expect([...advantages]).toEqual([-0.25, 0.75, 5]);
  });
});

describe('whiten', () => {
  it('gives mean 0 and variance 1 over the trained tokens, whatever the others hold', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 2, maxLength: 20 }), (values) => {
        fc.pre(new Set(values).size > 1);
        const mask = Uint8Array.from([...values.map(() => 1), 0, 0]);
        const white = whiten(Float64Array.from([...values, NaN, 1e9]), mask).slice(0, values.length);
        const mean = white.reduce((sum, v) => sum + v, 0) / white.length;
        expect(mean).toBeCloseTo(0, 9);
        expect(white.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (white.length - 1)).toBeCloseTo(1, 6);
      }),
    );
  });

  it('refuses fewer than two trained tokens', () => {
    expect(() => whiten(Float64Array.of(1, 2), Uint8Array.of(0, 1))).toThrow('at least two trained tokens, got 1');
  });
});
