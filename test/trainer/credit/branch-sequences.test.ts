import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TrainingSequence } from '../../../src/trainer/credit.ts';
import { branchSequences, chosenPlaces } from '../../../src/trainer/credit/branch-sequences.ts';
import { trainingSequence } from '../../../src/trainer/credit.ts';
import { tokenPlaces } from '../../../src/trainer/credit/rollout-turns.ts';
import { tokenKinds } from '../../../src/trainer/credit/token-kinds.ts';
import { evaluateTerms, termCounts } from '../../../src/trainer/loop/evaluate-terms.ts';
import type { Aggregation } from '../../../src/trainer/losses/aggregation.ts';
import { nllLoss } from '../../../src/trainer/losses/nll-loss.ts';
import { ratioLoss } from '../../../src/trainer/losses/ratio-loss.ts';
import { rpgLoss } from '../../../src/trainer/losses/rpg-loss.ts';
import type { LossTerm, TokenLoss } from '../../../src/trainer/token-loss.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { branched } from '../branched-trajectory.ts';
import { anyAggregation, anyConfig } from '../losses/loss-batches.ts';

const ALL = { branches: 'all', branchWeight: 'rollout' } as const;
const three = branched('a/0', [{ sampled: [-1, -2] }, { sampled: [-3], prompt: 4, parent: 0, role: 'writer' }, { sampled: [-4, -5], prompt: 3 }], {
  versions: Int32Array.of(3, 3, 4, 5, 5),
  images: [{ sha256: 'x', mediaType: 'image/png', width: 1, height: 1, offset: 6, length: 2 }],
});
const cut = (trajectory: Trajectory, changes: object = {}) => branchSequences(trainingSequence(trajectory, 1), { ...ALL, ...changes });

describe('branchSequences', () => {
  it('gives each branch its ids, targets, log-probs, versions, images and role, counted from its own start', () => {
    const sequences = cut(three);
    expect(
      sequences.map(({ ids, targets, logProbs, trajectory: { role, versions, promptLength, turnTokens } }) => [
        [...ids],
        [...targets],
        [...logProbs!],
        role,
        [...versions!],
        promptLength,
        turnTokens,
      ]),
    ).toEqual([
      [[1, 2, 3, 4, 5], [2, 3], [-1, -2], 'policy', [3, 3], 2, [2]],
      [[6, 7, 8, 9, 10, 11], [4], [-3], 'writer', [4], 4, [1]],
      [[12, 13, 14, 15, 16, 17], [3, 4], [-4, -5], 'policy', [5, 5], 3, [2]],
    ]);
    expect(sequences.map(({ images }) => images?.map(({ offset }) => offset))).toEqual([undefined, [1], undefined]);
    expect(new Set(sequences.map(({ unit }) => unit)).size).toBe(1);
    expect(cut(three, { branchWeight: 'token' }).map(({ unit }) => unit)).toEqual([undefined, undefined, undefined]);
  });

  it('leaves a rollout of one branch as it is', () => {
    const one = trainingSequence(branched('a/0', [{ sampled: [-1] }]), 1);
    expect(branchSequences(one, ALL)[0]).toBe(one);
  });

  it('takes the branch with most sampled tokens as the longest, the first of equal ones, and the last as the last', () => {
    const indexOf = (choice: 'longest' | 'last', lengths: readonly number[]) =>
      chosenPlaces(
        branched(
          'a/0',
          lengths.map((length) => ({ sampled: Array.from({ length }, () => -1) })),
        ),
        choice,
      ).map(({ index }) => index);
    expect(indexOf('longest', [2, 4, 4])).toEqual([1]);
    expect(indexOf('longest', [3, 3])).toEqual([0]);
    expect(indexOf('last', [3, 3, 0])).toEqual([2]);
    const ending = branched('a/0', [{ sampled: [-1] }, { sampled: [-1, -1], endsLast: true }, { sampled: [-1] }]);
    expect(chosenPlaces(ending, 'last').map(({ index }) => index)).toEqual([1]);
    expect(cut(three, { branches: 'last' }).map(({ ids }) => ids[0])).toEqual([12]);
  });

  it('numbers turns in the rollout and positions in the branch', () => {
    expect(cut(three).map((sequence) => tokenPlaces(sequence))).toEqual([
      [
        { turn: 0, position: 2, inTurn: 0 },
        { turn: 0, position: 3, inTurn: 1 },
      ],
      [{ turn: 1, position: 4, inTurn: 0 }],
      [
        { turn: 2, position: 3, inTurn: 0 },
        { turn: 2, position: 4, inTurn: 1 },
      ],
    ]);
  });

  it('reads no tag of the branch before it', () => {
    // The first branch ends with an open tag; the second has a line feed as its prompt.
    const spelling = (id: number) => (id === 5 ? '<think>' : id === 6 ? '\n' : 'x');
    const two = branched('a/0', [{ sampled: [-1, -1] }, { sampled: [-1], prompt: 1 }]);
    expect(tokenKinds(two, spelling)).toEqual(['', '', '']);
    const opened = branched('a/0', [{ sampled: [-1, -1] }, { sampled: [-1] }]);
    expect(tokenKinds(opened, (id) => (id === 6 ? '<think>' : id === 7 ? '\n' : 'x'))).toEqual(['', '', 'think']);
  });
});

/** A rollout as one sequence, and the numbers of its tokens. */
interface Uncut {
  readonly tokens: readonly { readonly logProb: number; readonly old: number; readonly reference: number; readonly entropy: number }[];
  readonly advantage: number;
  /** Where it is cut. */
  readonly cuts: readonly number[];
}
const value = (low: number, high: number) => fc.integer({ min: low * 1000, max: high * 1000 }).map((n) => n / 1000);
const anyRollout: fc.Arbitrary<Uncut> = fc.record({
  tokens: fc.array(fc.record({ logProb: value(-6, -1), old: value(-6, -1), reference: value(-6, -1), entropy: value(0, 4) }), { maxLength: 7 }),
  advantage: value(-2, 2),
  cuts: fc.array(fc.nat({ max: 7 }), { maxLength: 3 }),
});

/** Its sequences, with the numbers of their tokens: whole, or a branch for each part. */
function sequencesOf({ tokens, advantage, cuts }: Uncut, i: number, isCut: boolean) {
  const at = isCut ? [0, ...cuts.map((place) => Math.min(place, tokens.length)).toSorted((a, b) => a - b), tokens.length] : [0, tokens.length];
  const parts = at.slice(1).map((end, k) => tokens.slice(at[k], end));
  const whole = branched(
    `${i}/0`,
    parts.map((part) => ({ sampled: part.map(({ old }) => old) })),
  );
  const sequences = branchSequences(trainingSequence(whole, advantage), ALL);
  return sequences.map((sequence, k): { sequence: TrainingSequence; part: Uncut['tokens'] } => {
    const part = parts[k]!;
    const column = (name: 'old' | 'reference') => Float64Array.from(part, (token) => token[name]);
    return { sequence: { ...sequence, oldLogProbs: column('old'), referenceLogProbs: column('reference') }, part };
  });
}

function evaluated(loss: TokenLoss, rollouts: readonly Uncut[], isCut: boolean) {
  const all = rollouts.flatMap((rollout, i) => sequencesOf(rollout, i, isCut));
  const term: LossTerm = { name: 'policy', isMain: true, loss, weight: 1, on: 'rollouts', roles: null };
  const members = all.map(({ sequence }) => sequence);
  const offsets = Int32Array.from(all.reduce((ends, { part }) => [...ends, ends.at(-1)! + part.length], [0]));
  const column = (name: 'logProb' | 'entropy') => Float64Array.from(all.flatMap(({ part }) => part.map((token) => token[name])));
  const counts = [termCounts(term, members)];
  const { values, gradient, dEntropy } = evaluateTerms([term], counts, members, { offsets, logProbs: column('logProb'), entropy: column('entropy') });
  return { loss: values.loss, gradient: [...gradient], dEntropy: [...dEntropy!] };
}

/** The greatest difference that cutting makes, of the loss and of any slope. */
function differenceOf(loss: TokenLoss, rollouts: readonly Uncut[]): number {
  const [whole, parts] = [evaluated(loss, rollouts, false), evaluated(loss, rollouts, true)].map((each) => [
    each.loss,
    ...each.gradient,
    ...each.dEntropy,
  ]);
  expect(parts!.length).toBe(whole!.length);
  return Math.max(...whole!.map((slope, i) => Math.abs(slope - parts![i]!)));
}

describe('a rollout that is cut into branches', () => {
  const anyStep = fc.array(anyRollout, { minLength: 1, maxLength: 4 });
  // Ratios and corrections of a sequence are those of a branch: README.md.
  const byToken = anyConfig.map((config) => ({
    ...config,
    ratio: 'token' as const,
    correction: config.correction?.level === 'token' ? config.correction : null,
  }));

  it('has the loss and the gradient that it has uncut, KL and entropy terms too {any ratio loss by token, any aggregation}', () => {
    fc.assert(
      fc.property(byToken, anyStep, (config, rollouts) => {
        expect(differenceOf(ratioLoss(config), rollouts)).toBeLessThan(1e-9);
      }),
      { numRuns: 200 },
    );
  });

  it('has them under nll and rpg {any aggregation}', () => {
    fc.assert(
      fc.property(anyAggregation, anyStep, (aggregation, rollouts) => {
        expect(differenceOf(nllLoss(aggregation), rollouts)).toBeLessThan(1e-9);
        expect(differenceOf(rpgLoss({ ratio: 'token', logRatioClamp: 2.3, beta: 0.1, aggregation }), rollouts)).toBeLessThan(1e-9);
        expect(
          differenceOf(rpgLoss({ ratio: 'token', logRatioClamp: 2.3, beta: 0.1, aggregation: { kind: 'role_token_mean' } }), rollouts),
        ).toBeLessThan(1e-9);
      }),
    );
  });

  it('has them with a ratio per sequence before the first update, where every ratio is 1 {any aggregation}', () => {
    fc.assert(
      fc.property(anyAggregation, anyStep, (aggregation, rollouts) => {
        const first = rollouts.map((rollout) => ({ ...rollout, tokens: rollout.tokens.map((token) => ({ ...token, old: token.logProb })) }));
        const gspo = { ratio: 'sequence', objective: { kind: 'clip', clipLow: 3e-4, clipHigh: 4e-4, dualClip: null } } as const;
        expect(differenceOf(ratioLoss({ ...gspo, logRatioClamp: 20, correction: null, aggregation, kl: null }), first)).toBeLessThan(1e-9);
      }),
    );
  });

  it('has no larger weight than another one, unless each branch counts by itself', () => {
    const aggregation: Aggregation = { kind: 'sequence_mean', within: 'mean', countEmpty: false };
    const term = { name: 'policy', isMain: true, loss: nllLoss(aggregation), weight: 1, on: 'rollouts', roles: null } as const;
    const weightOf = (branchWeight: 'rollout' | 'token') => {
      const made = [three, branched('a/1', [{ sampled: [-1, -1] }])].map((each) => trainingSequence(each, 1));
      const members = made.flatMap((sequence) => branchSequences(sequence, { branches: 'all', branchWeight }));
      const offsets = Int32Array.of(0, 2, 3, 5, 7);
      const { gradient } = evaluateTerms([term], [termCounts(term, members)], members, { offsets, logProbs: new Float64Array(7), entropy: null });
      return gradient.slice(0, 5).reduce((sum, slope) => sum - slope, 0);
    };
    expect(weightOf('rollout')).toBeCloseTo(1 / 2, 12);
    expect(weightOf('token')).toBeCloseTo(3 / 4, 12);
  });
});
