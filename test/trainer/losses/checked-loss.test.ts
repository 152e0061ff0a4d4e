import { describe, expect, it } from 'vitest';
import { ConfigError, TrainingError } from '../../../src/core/errors.ts';
import { checkedLoss } from '../../../src/trainer/losses/checked-loss.ts';
import { nllLoss } from '../../../src/trainer/losses/nll-loss.ts';
import type { LossContext, LossFactory } from '../../../src/trainer/losses/registry.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';
import { batchOf } from './loss-batches.ts';

const MODULE = './mine.ts (losses.mine.use)';
const NEEDS = { old: false, reference: false, sampler: false };
const opened = (createLoss: unknown) => checkedLoss(createLoss as LossFactory, {}, {} as LossContext, MODULE);
const batch = batchOf([[-1, -2], [-3]], 1);
const evaluated = (evaluate: (given: typeof batch) => unknown) =>
  opened(() => ({ needs: NEEDS, evaluate })).evaluate(batch, countTokens(batch.offsets));
const GRADIENT = new Float64Array(3);

describe('checkedLoss', () => {
  it('changes nothing of a loss that is right, NaN and unmeasured means included', () => {
    const plain = nllLoss({ kind: 'sum' });
    expect(opened(() => plain).evaluate(batch, countTokens(batch.offsets))).toEqual(plain.evaluate(batch, countTokens(batch.offsets)));
    expect(opened(() => ({ ...plain, ignoresZeroAdvantages: true })).ignoresZeroAdvantages).toBe(true);
    const value = { loss: NaN, gradient: GRADIENT, metrics: { share: { merge: 'mean', value: NaN, weight: 0 } } };
    expect(evaluated(() => value)).toBe(value);
  });

  it('names the module and the line of an error in createLoss and in evaluate', () => {
    const fault = () => {
      throw new RangeError('scale is missing');
    };
    expect(() => opened(fault)).toThrow(ConfigError);
    expect(() => opened(fault)).toThrow(`createLoss of ${MODULE} failed: RangeError: scale is missing (at fault (`);
    expect(() => evaluated(fault)).toThrow(TrainingError);
    expect(() => evaluated(fault)).toThrow(
      /^evaluate of the loss .* failed: RangeError: scale is missing \(at .*checked-loss\.test\.ts:\d+:\d+\)\)?$/,
    );
  });

  it('refuses a value that is not a loss', () => {
    expect(() => opened(async () => nllLoss({ kind: 'sum' }))).toThrow(`createLoss of ${MODULE} must not be async`);
    for (const loss of [null, {}, { needs: { olds: true }, evaluate: () => null }])
      expect(() => opened(() => loss)).toThrow(`createLoss of ${MODULE} must return { needs: { old, reference, sampler }, evaluate(batch, counts) }`);
  });

  it.each([
    [undefined, 'it must be { loss, gradient, metrics }'],
    [{ gradient: GRADIENT, metrics: {} }, 'loss must be a number, got undefined'],
    [{ loss: '1', gradient: GRADIENT, metrics: {} }, 'loss must be a number, got "1"'],
    [{ loss: 1, metrics: {} }, 'gradient must be a Float64Array with a number for every token'],
    [{ loss: 1, gradient: GRADIENT, dEntropy: [0], metrics: {} }, 'dEntropy must be a Float64Array'],
    [{ loss: 1, gradient: GRADIENT.subarray(1), metrics: {} }, 'gradient must have a number for each of the 3 tokens, got 2'],
    [{ loss: 1, gradient: GRADIENT, dEntropy: new Float64Array(4), metrics: {} }, 'dEntropy must have a number for each of the 3 tokens, got 4'],
    [{ loss: 1, gradient: GRADIENT }, 'metrics must be an object; return {} for a loss without metrics'],
    [{ loss: 1, gradient: GRADIENT, metrics: { share: 3 } }, 'the metric "share" must be { merge, value }'],
    [
      { loss: 1, gradient: GRADIENT, metrics: { share: { merge: 'mean', value: 3 } } },
      'or a mean: meanMetric(sum, count); got {"merge":"mean","value":3}',
    ],
  ])('refuses the value %j in one line', (value, message) => {
    expect(() => evaluated(() => value)).toThrow(ConfigError);
    expect(() => evaluated(() => value)).toThrow(message);
  });
});
