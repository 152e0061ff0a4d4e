import { describe, expect, it } from 'vitest';
import { builtInLoss } from '../../src/tinker/built-in-losses.ts';
import { textDatum } from '../../src/tinker/wire/training-pass.ts';
import { floatRow } from '../../src/tinker/wire/wire-tensor.ts';

const LOG_PROBS = Float32Array.of(-0.5, -1, -2, -0.25);
const INPUTS = {
  logprobs: floatRow(Float32Array.of(-1, -1, -1.5, -1)),
  advantages: floatRow(Float32Array.of(1, -1, -2, 3)),
  weights: floatRow(Float32Array.of(1, 1, 1, 0.5)),
};
const datum = textDatum(Int32Array.of(1, 2, 3, 4), INPUTS);

function sum(values: Iterable<number>): number {
  return [...values].reduce((total, value) => total + value, 0);
}

describe('builtInLoss', () => {
  it.each(['cross_entropy', 'importance_sampling', 'ppo', 'cispo'])('has the gradient of %s that finite differences have', (name) => {
    const loss = builtInLoss(name, {});
    const { gradient } = loss(datum, LOG_PROBS, 'data[0]');
    const size = 1 / 256;
    for (const t of LOG_PROBS.keys()) {
      const at = (change: number) => sum(loss(datum, LOG_PROBS.with(t, LOG_PROBS[t]! + change), 'data[0]').losses);
      const slope = (at(size) - at(-size)) / (2 * size);
      // CISPO holds the clipped ratio constant, so its loss changes in more than its gradient says where the ratio is not clipped.
      const held = name === 'cispo' ? gradient[t]! + heldPart(t) : gradient[t]!;
      expect(slope).toBeCloseTo(held, 3);
    }
  });

  it('clips the importance ratio of PPO where that lowers the gain, and that of CISPO everywhere', () => {
    const ppo = builtInLoss('ppo', {})(datum, LOG_PROBS, 'data[0]');
    // The ratios are e^.5, 1, e^-.5 and e^.75.
    expect([...ppo.gradient]).toEqual([0, 1, 0, 0]);
    expect(ppo.losses[0]).toBeCloseTo(-1.2, 6);
    expect(ppo.losses[2]).toBeCloseTo(1.6, 6);
    const cispo = builtInLoss('cispo', { clip_low_threshold: 0.5, clip_high_threshold: 1.5 })(datum, LOG_PROBS, 'data[0]');
    expect([...cispo.gradient].map((value) => Number(value.toFixed(6)))).toEqual([-1.5, 1, Number((2 * Math.exp(-0.5)).toFixed(6)), -2.25]);
  });

  it('weighs every target alike without weights', () => {
    expect([...builtInLoss('cross_entropy', {})(textDatum(Int32Array.of(1, 2, 3, 4), {}), LOG_PROBS, 'data[0]').gradient]).toEqual([-1, -1, -1, -1]);
  });

  it.each([
    ['another loss', () => builtInLoss('dro', {}), /loss_fn must be cross_entropy, .* got dro/],
    ['a name of an object', () => builtInLoss('constructor', {}), /loss_fn must be/],
    ['another setting', () => builtInLoss('ppo', { beta: 1 }), /clip_high_threshold, got beta/],
    ['bounds out of order', () => builtInLoss('ppo', { clip_low_threshold: 2 }), /got 2 and 1\.2/],
    [
      'a tensor that is missing',
      () => builtInLoss('ppo', {})(textDatum(Int32Array.of(1, 2, 3, 4), {}), LOG_PROBS, 'data[0]'),
      /data\[0\].loss_fn_inputs.logprobs is missing/,
    ],
    [
      'a tensor of another length',
      () => builtInLoss('ppo', {})(datum, LOG_PROBS.subarray(1), 'data[7]'),
      /data\[7\].loss_fn_inputs.logprobs must have one value for each of the 3/,
    ],
    [
      'a value that is not finite',
      () =>
        builtInLoss('cross_entropy', {})(textDatum(Int32Array.of(1), { weights: floatRow(Float32Array.of(NaN)) }), LOG_PROBS.subarray(3), 'data[0]'),
      /weights\[0\] must be a finite number, got NaN/,
    ],
  ])('refuses %s', (_, call, message) => {
    expect(call).toThrow(message);
  });
});

/** What the ratio of an unclipped token adds to the slope of CISPO's loss. */
function heldPart(t: number): number {
  const ratio = Math.exp(LOG_PROBS[t]! - INPUTS.logprobs.values[t]!);
  const isFree = ratio > 0.8 && ratio < 1.2;
  return isFree ? -ratio * LOG_PROBS[t]! * INPUTS.advantages.values[t]! * INPUTS.weights.values[t]! : 0;
}
