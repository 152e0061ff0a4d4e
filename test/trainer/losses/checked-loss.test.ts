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

function caught(work: () => unknown): TrainingError {
  try {
    work();
  } catch (error) {
    if (error instanceof TrainingError) return error;
    throw error;
  }
  return expect.unreachable();
}

describe('checkedLoss', () => {
  it('changes nothing of a loss that is right, unmeasured means included', () => {
    const plain = nllLoss({ kind: 'sum' });
    expect(opened(() => plain).evaluate(batch, countTokens(batch.offsets))).toEqual(plain.evaluate(batch, countTokens(batch.offsets)));
    expect(opened(() => ({ ...plain, ignoresZeroAdvantages: true })).ignoresZeroAdvantages).toBe(true);
    const value = { loss: 2, gradient: GRADIENT, metrics: { share: { merge: 'mean', value: NaN, weight: 0 } } };
    expect(evaluated(() => value)).toEqual(value);
  });

  it('names the module and the line of an error in createLoss and in evaluate', () => {
    const fault = () => {
      throw new RangeError('scale is missing');
    };
    expect(() => opened(fault)).toThrow(ConfigError);
    expect(() => opened(fault)).toThrow(`createLoss of ${MODULE} failed: RangeError: scale is missing (at /`);
    expect(() => evaluated(fault)).toThrow(TrainingError);
    expect(() => evaluated(fault)).toThrow(
      /^evaluate of the loss .* failed: RangeError: scale is missing \(at .*checked-loss\.test\.ts:\d+:\d+\)\)?$/,
    );
  });

  it('refuses a value that is not a loss', () => {
    expect(() => opened(() => ({ needs: { ...NEEDS, turn: true }, evaluate: () => ({}) }) as never)).toThrow(
      `needs of the loss ${MODULE} may have old, reference, sampler, entropy, turns, positions, kinds, each true or false; got turn (did you mean turns?)`,
    );
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
    [{ loss: 1, gradient: GRADIENT, metric: {}, metrics: {} }, 'it has the key "metric" (did you mean metrics?)'],
    [{ loss: 1, gradient: GRADIENT }, 'metrics must be an object; return {} for a loss without metrics'],
    [{ loss: 1, gradient: GRADIENT, metrics: { loss: { merge: 'sum', value: 3 } } }, 'a metric must not be called "loss"'],
    [{ loss: 1, gradient: GRADIENT, metrics: { share: 3 } }, 'the metric "share" must be { merge, value }'],
    [
      { loss: 1, gradient: GRADIENT, metrics: { share: { merge: 'mean', value: 3 } } },
      'or a mean: meanMetric(sum, count); got {"merge":"mean","value":3}',
    ],
  ])('refuses the value %j in one line', (value, message) => {
    expect(() => evaluated(() => value)).toThrow(TrainingError);
    expect(() => evaluated(() => value)).toThrow(message);
  });

  it.each([
    [
      { gradient: Float64Array.of(1, NaN, 1) },
      'gradient must be finite in single precision, got NaN at token 1 of the rollout river/0 (logProbs -2, advantages 1,',
    ],
    [
      { gradient: Float64Array.of(1, 1, -1e300) },
      'gradient must be finite in single precision, got -1e+300 at token 0 of the rollout river/1 (logProbs -3',
    ],
    [{ dEntropy: Float64Array.of(Infinity, 1, 1) }, 'dEntropy must be finite in single precision, got Infinity at token 0 of the rollout river/0'],
    [{ metrics: { share: { merge: 'sum', value: NaN } } }, 'the metric "share" must be finite, got NaN for the 2 rollouts river/0, river/1'],
    [{ loss: NaN }, 'loss must be finite, got NaN for the 2 rollouts river/0, river/1, whose numbers are all finite'],
  ])('blames a number that is not finite on the module, with the rollout and the token, and asks for a corrected module (%#)', (wrong, message) => {
    const loss = opened(() => ({ needs: NEEDS, evaluate: () => ({ loss: 1, gradient: GRADIENT, metrics: {}, ...wrong }) }));
    const found = caught(() => loss.evaluate({ ...batch, rolloutIds: ['river/0', 'river/1'] }, countTokens(batch.offsets)));
    expect(found.message).toContain(`evaluate of the loss ${MODULE} returned a wrong value: ${message}`);
    expect(found).toMatchObject({ resumeFlags: ['--allow-changes'], correct: './mine.ts' });
  });

  it('gives the module copies: what it writes into its batch, its counts or earlier metrics changes nothing', () => {
    const given = structuredClone(batch);
    const counts = countTokens(batch.offsets);
    const metrics = { share: { merge: 'sum' as const, value: 0 } };
    const loss = opened(() => ({
      needs: NEEDS,
      evaluate: (columns: Record<string, { fill(value: unknown): void }>, sizes: { tokens: number }) => {
        Object.values(columns).forEach((column) => column.fill(0));
        sizes.tokens = 0;
        metrics.share.value++;
        return { loss: 1, gradient: GRADIENT, metrics };
      },
    }));
    const first = loss.evaluate(given, counts);
    loss.evaluate(given, counts);
    expect([given, counts]).toEqual([batch, countTokens(batch.offsets)]);
    expect(first.metrics['share']!.value).toBe(1);
  });

  it('does not blame a module for a number that it was given', () => {
    const value = { loss: NaN, gradient: GRADIENT.map(() => NaN), metrics: {} };
    const loss = opened(() => ({ needs: NEEDS, evaluate: () => value }));
    expect(loss.evaluate({ ...batch, advantages: Float64Array.of(1, NaN, 1) }, countTokens(batch.offsets))).toEqual(value);
  });

  it('refuses an async evaluate, says what to do instead, and leaves no rejection behind', () => {
    const evaluate = async () => {
      throw new Error('nobody waits for this');
    };
    expect(() => evaluated(evaluate)).toThrow(
      `evaluate of the loss ${MODULE} must not be async: it must return { loss, gradient, metrics }, not a Promise. Read files with readFileSync`,
    );
  });
});
