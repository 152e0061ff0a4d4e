import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GradientError, TrainingError } from '../../../src/core/errors.ts';
import { packBatches } from '../../../src/trainer/gradients/pack-batches.ts';
import { TokenBudget } from '../../../src/trainer/gradients/token-budget.ts';

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
    const budget = new TokenBudget(64, { onChange: (_, tokens) => budgets.push(tokens) });
    expect(await budget.attempt(micro(5), failing(outOfMemory))).toBeNull();
    expect(budget.tokens).toBe(25);
    expect(await budget.attempt(micro(4), failing(outOfMemory))).toBeNull();
    expect(budgets).toEqual([25, 12]);
    expect(budget.tokens).toBe(12);
  });

  it('is halved for each backend that was lost to memory, and raised again later', async () => {
    const changes: string[] = [];
    const budget = new TokenBudget(64, {
      counters: { token_budget: 40 },
      lost: 2,
      onChange: (change, tokens) => changes.push(`${change} ${tokens}`),
    });
    expect([budget.tokens, changes]).toEqual([10, ['halved 10']]);
    for (let done = 0; done < 10; done++) {
      await budget.attempt(micro(1), async () => 'done');
      budget.finishStep();
    }
    expect(changes).toEqual(['halved 10', 'raised 20']);
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

  /** A step of one micro-batch as large as the budget; memory holds `room` tokens. */
  async function step(budget: TokenBudget, room: number): Promise<void> {
    for (let done = false; !done;) {
      const sequences = Math.max(1, Math.floor(budget.tokens / 10));
      const work = sequences * 10 > room ? failing(outOfMemory) : async () => 'done';
      done = (await budget.attempt(micro(sequences), work)) !== null;
    }
    budget.finishStep();
  }

  it('grows back to its limit where memory is free again', async () => {
    const changes: [string, number][] = [];
    const budget = new TokenBudget(640, { onChange: (...change) => changes.push(change) });
    await step(budget, 160);
    expect(budget.tokens).toBe(160);
    for (let i = 0; i < 9; i++) await step(budget, 1000);
    expect(budget.tokens).toBe(160);
    for (let i = 0; i < 11; i++) await step(budget, 1000);
    expect(changes).toEqual([
      ['halved', 320],
      ['halved', 160],
      ['raised', 320],
      ['raised', 640],
    ]);
    for (let i = 0; i < 100; i++) await step(budget, 1000);
    expect(budget.tokens).toBe(640);
  });

  it('tries ever more seldom where memory stays short', async () => {
    const failed: number[] = [];
    const budget = new TokenBudget(640, { onChange: (change) => change === 'halved' && failed.push(i) });
    let i = 0;
    for (; i < 700; i++) await step(budget, 320);
    const pauses = failed.slice(1).map((at, k) => at - failed[k]!);
    expect(pauses).toEqual([11, 21, 41, 81, 161, 321]);
  });

  it('does not count steps without a micro-batch', async () => {
    const budget = new TokenBudget(640);
    await step(budget, 320);
    for (let i = 0; i < 50; i++) budget.finishStep();
    expect(budget.tokens).toBe(320);
  });

  it('takes the same decisions after a resume from its counters at any step', async () => {
    const rooms = fc.array(fc.constantFrom(80, 320, 1000), { minLength: 1, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(rooms, fc.nat(), async (room, cut) => {
        const whole = new TokenBudget(640);
        let resumed = new TokenBudget(640);
        for (const [at, each] of room.entries()) {
          if (at === cut % room.length) resumed = new TokenBudget(640, { counters: { ...resumed.counters } });
          await step(whole, each);
          await step(resumed, each);
          expect(resumed.counters).toEqual(whole.counters);
        }
      }),
      { numRuns: 50 },
    );
  });
});
