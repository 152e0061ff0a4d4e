import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import type { LossFactory } from '../../../src/trainer/losses/registry.ts';
import { tryLosses } from '../../../src/trainer/loop/try-losses.ts';
import type { TokenLossBatch } from '../../../src/trainer/token-loss.ts';
import { someConfig } from '../some-config.ts';

const ROWS = { rows: [{ exampleId: 'river', role: 'solve' }, { exampleId: 7 }], metrics: [] };
const NEEDS = { old: true, reference: true, sampler: true, entropy: true, turns: true, positions: true, kinds: true };
const ZERO = ({ logProbs }: TokenLossBatch) => ({ loss: 0, gradient: logProbs.map(() => 0), metrics: {} });

async function tried(evaluate: (batch: TokenLossBatch) => unknown, { needs = NEEDS, table = {} }: { needs?: object; table?: object } = {}) {
  const config = someConfig({ sft: { data: 'rows.jsonl' }, losses: { mine: { use: './mine.ts', ...table } }, rollouts: { rollouts_per_example: 4 } });
  const createLoss = (() => ({ needs, evaluate })) as unknown as LossFactory;
  const terms = lossTerms(config, { algorithm: config.algorithm, responseTokens: 500 }, new Map([['./mine.ts', createLoss]]));
  await tryLosses(terms, config, ROWS);
}

describe('tryLosses', () => {
  it('gives a loss rollouts of the real rows, with every column that it needs and advantages of both signs', async () => {
    const seen: TokenLossBatch[] = [];
    await tried((batch) => (seen.push(batch), ZERO(batch)));
    const [{ offsets, rolloutIds, roles, ...columns }] = seen as [TokenLossBatch];
    expect([rolloutIds![0], rolloutIds!.at(-1), rolloutIds!.length]).toEqual(['river/0', '7/3', 8]);
    expect(new Set(roles)).toEqual(new Set(['solve', 'policy']));
    expect(Object.values(columns).map((column) => column.length)).toEqual(Object.values(columns).map(() => offsets.at(-1)));
    expect(Object.keys(columns)).toHaveLength(10);
    expect(new Set(columns.advantages)).toEqual(new Set([1, 0, -1]));
  });

  it('tries a loss of some roles, and one on demonstrations, which have no log-probs of a sampler', async () => {
    const seen: TokenLossBatch[] = [];
    await tried((batch) => (seen.push(batch), ZERO(batch)), { table: { roles: ['propose', 'judge'] } });
    expect(new Set(seen[0]!.roles)).toEqual(new Set(['propose', 'judge']));
    await tried((batch) => (seen.push(batch), ZERO(batch)), { table: { on: 'demonstrations' }, needs: { ...NEEDS, sampler: false } });
    expect(new Set(seen[1]!.advantages)).toEqual(new Set([1]));
    await expect(tried(ZERO, { table: { on: 'demonstrations' } })).rejects.toThrow(
      /needs the sampler's log-probs, but river\/0 has none\. Found on made-up/,
    );
  });

  it.each([
    ['NaN', (batch: TokenLossBatch) => ({ ...ZERO(batch), loss: NaN }), /loss must be finite, got NaN for the 8 rollouts river\/0, river\/1/],
    ['a promise', async () => null, /^evaluate of the loss \.\/mine\.ts \(losses\.mine\.use\) must not be async/],
    [
      'too few numbers',
      () => ({ loss: 0, gradient: new Float64Array(1), metrics: {} }),
      /gradient must have a number for each of the 34 tokens, got 1/,
    ],
    ['an error', () => expect.unreachable('no such table'), /failed: .*no such table/],
  ])('refuses a loss that gives %s, before anything is sampled', async (_, evaluate, message) => {
    const found = tried(evaluate);
    await expect(found).rejects.toThrow(ConfigError);
    await expect(found).rejects.toThrow(message);
    await expect(found).rejects.toThrow(/\. Found on made-up rollouts \(step 0\), before anything was sampled$/);
  });

  it('does not try a loss with the weight 0, which no step evaluates', async () => {
    await tried(() => expect.unreachable(), { table: { weight: 0 } });
  });
});
