/** What `constant_groups` does to the gradient: one group of eight informs, by the ratio loss of the registry. */
import { describe, expect, it } from 'vitest';
import { evaluateTerms, termCounts } from '../../../src/trainer/loop/evaluate-terms.ts';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import { someConfig } from '../some-config.ts';
import { credits, passOver, PLAIN, rollouts } from './credit-cases.ts';

const [RIGHT, WRONG] = [Array.from({ length: 8 }, () => 1), Array.from({ length: 8 }, () => 0)];
/** Eight rows of eight rollouts with two tokens each; only the first row has different rewards, four of each. */
const ROWS = { a: [1, 0, 1, 0, 1, 0, 1, 0], b: RIGHT, c: WRONG, d: RIGHT, e: WRONG, f: RIGHT, g: WRONG, h: RIGHT };

/** dLoss / dlogProb of the first token of the first rollout, whose advantage is 1, at ratio 1. */
async function firstSlope(algorithm: object): Promise<number> {
  const config = someConfig({ algorithm: { advantage: PLAIN, ...algorithm } });
  const { groups } = await credits(config).assign(rollouts(ROWS), passOver());
  const sequences = groups.flat().map((sequence) => ({ ...sequence, oldLogProbs: null, referenceLogProbs: null }));
  const terms = lossTerms(config, { algorithm: config.algorithm, responseTokens: 16 });
  const counts = terms.map((term) => termCounts(term, sequences));
  const offsets = Int32Array.from({ length: sequences.length + 1 }, (_, i) => 2 * i);
  const logProbs = new Float64Array(2 * sequences.length).fill(-1);
  return evaluateTerms(terms, counts, sequences, { offsets, logProbs, entropy: null }).gradient[0]!;
}

describe('constant_groups', () => {
  it.each([
    ['token_mean', -1 / 128, -1 / 16],
    ['sequence_mean', -1 / 128, -1 / 16],
    ['sequence_mean_token_sum', -1 / 64, -1 / 8],
    ['constant', -1 / 1024, -1 / 128],
  ])('drop gives eight times the gradient of keep with %s: %d, %d', async (aggregation, keep, drop) => {
    const of = (constant_groups: string) => firstSlope({ constant_groups, loss: { aggregation } });
    expect([await of('keep'), await of('drop')]).toEqual([keep, drop]);
    expect(drop / keep).toBe(8);
  });

  it('makes no difference to a sum, which has no divisor', async () => {
    const of = (constant_groups: string) => firstSlope({ constant_groups, loss: { aggregation: 'sum' } });
    expect([await of('keep'), await of('drop')]).toEqual([-1, -1]);
  });

  it('keeps by default', async () => {
    expect(await firstSlope({})).toBe(await firstSlope({ constant_groups: 'keep' }));
  });
});
