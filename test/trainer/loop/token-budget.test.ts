import { describe, expect, it } from 'vitest';
import { GradientError, TrainingError } from '../../../src/core/errors.ts';
import { packBatches } from '../../../src/trainer/loop/pack-batches.ts';
import { TokenBudget } from '../../../src/trainer/loop/token-budget.ts';

const outOfMemory = new GradientError('no room', { code: 'out_of_memory' });
/** One batch of this many sequences of ten tokens. */
const micro = (sequences: number) =>
  packBatches(
    Array.from({ length: sequences }, () => ({ ids: new Int32Array(10), targets: Int32Array.of(1) })),
    1000,
    1,
  )[0]!;
const failing = (error: Error) => async () => {
  throw error;
};

describe('TokenBudget', () => {
  it('returns what the work returns, and stays the same', async () => {
    const budget = new TokenBudget(64);
    expect(await budget.attempt(micro(3), async () => 'done')).toBe('done');
    expect(budget.tokens).toBe(64);
  });

  it('becomes half of the budget or of the batch, whichever is smaller, when memory runs out', async () => {
    const budgets: number[] = [];
    const budget = new TokenBudget(64, (tokens) => budgets.push(tokens));
    expect(await budget.attempt(micro(5), failing(outOfMemory))).toBeNull();
    expect(budget.tokens).toBe(25);
    expect(await budget.attempt(micro(4), failing(outOfMemory))).toBeNull();
    expect(budgets).toEqual([25, 12]);
    expect(budget.tokens).toBe(12);
  });

  it('stops the run, with the remedy, where a single sequence does not fit', async () => {
    const budget = new TokenBudget(64);
    const attempt = budget.attempt(micro(1), failing(outOfMemory));
    await expect(attempt).rejects.toThrow(TrainingError);
    await expect(attempt).rejects.toMatchObject({
      cause: outOfMemory,
      message: expect.stringMatching(/a single sequence of 10 tokens.*gradient_checkpointing/),
    });
    expect(budget.tokens).toBe(64);
  });

  it.each([new GradientError('gone', { code: 'lost' }), new GradientError('NaN', { code: 'not_finite' }), new TypeError('a bug')])(
    'passes on every other failure: %s',
    async (error) => {
      const budget = new TokenBudget(64);
      await expect(budget.attempt(micro(3), failing(error))).rejects.toBe(error);
      expect(budget.tokens).toBe(64);
    },
  );
});
