import { describe, expect, it } from 'vitest';
import { TrainingError } from '../../../src/core/errors.ts';
import { demonstration, trainingSequence } from '../../../src/trainer/credit.ts';
import type { TrainingSequence } from '../../../src/trainer/credit.ts';
import { evaluateTerms, takes, termCounts } from '../../../src/trainer/loop/evaluate-terms.ts';
import { lossTerms } from '../../../src/trainer/losses/loss-terms.ts';
import type { LossTerm, TokenLossBatch } from '../../../src/trainer/token-loss.ts';
import { row, spoken } from '../credit/credit-cases.ts';
import { someConfig } from '../some-config.ts';

const prepared = (sequence: ReturnType<typeof demonstration>, old: Float64Array | null = null): TrainingSequence => ({
  ...sequence,
  oldLogProbs: old,
  referenceLogProbs: sequence.targets.length === 0 ? new Float64Array(0) : new Float64Array(sequence.targets.length).fill(-0.75),
});
/** A rollout of this role with two tokens and an advantage. */
const said = (id: string, role: string, advantage: number, old: readonly number[] | null = [-0.5, -1.25]) =>
  prepared(
    trainingSequence(
      {
        ...spoken(id, 1, [
          [1, -0.5],
          [2, -1.5],
        ]),
        role,
      },
      advantage,
    ),
    old === null ? null : Float64Array.from(old),
  );
const shown = prepared(demonstration(row('s/0', Float64Array.of(1, 0.5))));
const ALL = [said('a/0', 'asker', 1), shown, said('b/0', 'solver', -2), said('c/0', 'asker', 0.5)];

const termsOf = (table: Record<string, unknown>): LossTerm[] => {
  const config = someConfig(table);
  return lossTerms(config, { algorithm: config.algorithm, responseTokens: 16 });
};
const MIXED = termsOf({
  algorithm: { kl: { coefficient: 0.1 }, entropy_coefficient: 0.01 },
  sft: { data: 'rows.jsonl' },
  losses: { asking: { use: 'rpg', weight: 0.5, roles: ['asker'], args: { beta: 0.1 } } },
});
const [policy, asking, sft] = MIXED as [LossTerm, LossTerm, LossTerm];

/** As one micro-batch, with log-probs of -1 and entropies of 2 unless given. */
function evaluated(terms: readonly LossTerm[], members: readonly TrainingSequence[], whole = members, logProb = -1) {
  const counts = terms.map((term) => termCounts(term, whole));
  const offsets = Int32Array.from({ length: members.length + 1 }, (_, i) => 2 * i);
  const logProbs = new Float64Array(2 * members.length).fill(logProb);
  return evaluateTerms(terms, counts, members, { offsets, logProbs, entropy: logProbs.map(() => 2) });
}

describe('evaluateTerms', () => {
  it('corrects each token of a rollout that two versions sampled by the log-prob of the version that sampled it', () => {
    const rollout = spoken('a/0', 1, [
      [1, -0.5],
      [2, -1.5],
    ]);
    const mixed = trainingSequence({ ...rollout, policy: { model: 'm', version: 4 }, versions: Int32Array.of(4, 6) }, 1);
    const terms = termsOf({ algorithm: { correction: { level: 'token', min: 0, max: 100 }, old_log_probs: 'trainer' } });
    const { values } = evaluated(terms, [prepared(mixed, Float64Array.of(-1, -1))]);
    // The trainer's log-probs are -1: the first token is corrected by exp(-1 + 0.5), the second by exp(-1 + 1.5).
    expect(values.byTerm.get('policy')!['correction_mean']!.value).toBeCloseTo((Math.exp(-0.5) + Math.exp(0.5)) / 2, 12);
  });

  it('gives a loss the turns, places and kinds of its tokens, if it needs them', () => {
    const seen: TokenLossBatch[] = [];
    const termWith = (needs: object): LossTerm => ({
      ...policy,
      loss: {
        needs: { old: false, reference: false, sampler: false, ...needs },
        evaluate(batch) {
          seen.push(batch);
          return { loss: 0, gradient: new Float64Array(batch.logProbs.length), metrics: {} };
        },
      },
    });
    const two = prepared(trainingSequence(spoken('d/0', 1, [[1, -1], null, [2, -1]]), 1));
    const members = [shown, { ...ALL[0]!, kinds: ['think', ''] }, { ...two, kinds: ['search', 'answer'] }];
    evaluated([termWith({ turns: true, positions: true, kinds: true }), termWith({})], members);
    expect(seen[0]).toMatchObject({
      turns: Int32Array.of(0, 0, 0, 1),
      positions: Int32Array.of(1, 2, 1, 3),
      turnPositions: Int32Array.of(0, 1, 0, 0),
      kinds: ['think', '', 'search', 'answer'],
    });
    for (const column of ['turns', 'positions', 'turnPositions', 'kinds']) expect(column in seen[1]!).toBe(false);
  });
});

describe('takes', () => {
  it('is by rollout or demonstration, and by role', () => {
    const taken = (term: LossTerm) => ALL.map((sequence) => takes(term, sequence));
    expect([policy, asking, sft].map(taken)).toEqual([
      [true, false, true, true],
      [true, false, false, true],
      [false, true, false, false],
    ]);
  });
});

describe('termCounts', () => {
  it('counts what the term takes, by role', () => {
    expect(termCounts(asking, ALL)).toEqual({
      counts: { tokens: 4, sequences: 2, trainedSequences: 2, tokensByRole: new Map([['asker', 4]]) },
      lengths: null,
    });
    expect(termCounts(sft, ALL).counts).toMatchObject({ tokens: 2, sequences: 1 });
    expect(termCounts(policy, ALL).counts).toMatchObject({ tokens: 6, sequences: 3 });
  });
});

describe('evaluateTerms', () => {
  it('is the weighted sum of each loss alone, at the places of its own sequences', () => {
    const together = evaluated(MIXED, ALL);
    const alone = MIXED.map((term) => evaluated([term], ALL));
    expect(together.values.loss).toBeCloseTo(
      alone.reduce((sum, { values }) => sum + values.loss, 0),
      12,
    );
    together.gradient.forEach((slope, t) =>
      expect(slope).toBeCloseTo(
        alone.reduce((sum, { gradient }) => sum + gradient[t]!, 0),
        12,
      ),
    );
    expect([...alone[2]!.gradient]).toEqual([0, 0, -0.5, -0.25, 0, 0, 0, 0]);
    expect([...alone[1]!.gradient].map((slope) => slope !== 0)).toEqual([true, true, false, false, false, false, true, true]);
    const full = evaluated([{ ...asking, weight: 1 }], ALL);
    expect([...alone[1]!.gradient]).toEqual([...full.gradient].map((slope) => 0.5 * slope));
  });

  it('gives the same gradient, bit for bit, for every split into micro-batches, and shares that sum to the loss', () => {
    const whole = evaluated(MIXED, ALL);
    for (let cut = 1; cut < ALL.length; cut++) {
      const parts = [ALL.slice(0, cut), ALL.slice(cut)].map((members) => evaluated(MIXED, members, ALL));
      expect(parts.flatMap(({ gradient }) => [...gradient])).toEqual([...whole.gradient]);
      expect(parts.flatMap(({ dEntropy }) => [...dEntropy!])).toEqual([...whole.dEntropy!]);
      expect(parts[0]!.values.loss + parts[1]!.values.loss).toBeCloseTo(whole.values.loss, 12);
    }
  });

  it('gives the entropy a gradient only where the loss with a bonus is taken', () => {
    const slope = -0.01 * (1 / 6);
    expect([...evaluated(MIXED, ALL).dEntropy!]).toEqual([slope, slope, 0, 0, slope, slope, slope, slope]);
  });

  it('names each term’s metrics and its share, of those that took a sequence with a weight', () => {
    const { byTerm } = evaluated([policy, asking, { ...sft, weight: 0 }], [ALL[2]!, shown]).values;
    expect([...byTerm.keys()]).toEqual(['policy']);
    expect('loss' in byTerm.get('policy')!).toBe(false);
    const { values } = evaluated([sft], [shown]);
    expect(values.byTerm.get('sft')).toEqual({ loss: { merge: 'sum', value: values.loss }, nll: { merge: 'mean', value: 1, weight: 2 } });
  });

  it('takes the current log-probs as the old ones where there are none: the ratio is 1', () => {
    const [plain] = termsOf({});
    const { values, gradient } = evaluated([plain!], [said('a/0', 'policy', 3, null)], undefined, -7);
    expect([values.byTerm.get('policy')!['ratio_min']!.value, [...gradient]]).toEqual([1, [-1.5, -1.5]]);
  });

  it('names the loss and the rollout that has no log-probs of its sampler', () => {
    const [corrected] = termsOf({ algorithm: { old_log_probs: 'trainer', correction: { level: 'token' } } });
    const unknown = { ...said('a/0', 'policy', 1), logProbs: null };
    expect(() => evaluated([corrected!], [unknown])).toThrow(TrainingError);
    expect(() => evaluated([corrected!], [unknown])).toThrow('The loss "policy" needs the sampler\'s log-probs, but a/0 has none');
  });
});
