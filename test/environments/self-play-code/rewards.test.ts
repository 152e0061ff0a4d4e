import * as fc from 'fast-check';
import { RewardError } from 'vf-search';
import {
  alphaSchedule,
  integratedCritiqueReward,
  integratedSolveReward,
  learnability,
  lengthReward,
  proposeReward,
  solveReward,
} from 'vf-search/environments/self-play-code';
import { describe, expect, it } from 'vitest';

const share = fc.double({ min: 0, max: 1, noNaN: true });

describe('proposeReward', () => {
  it('pays -1 for an invalid program, -0.5 for what is always or never solved, else what the solver fails', () => {
    expect(proposeReward({ isValid: false, accuracy: 0.5 })).toBe(-1);
    expect([0, 1].map((accuracy) => proposeReward({ isValid: true, accuracy }))).toEqual([-0.5, -0.5]);
    expect([1 / 8, 7 / 8].map((accuracy) => proposeReward({ isValid: true, accuracy }))).toEqual([0.875, 0.125]);
  });

  it('refuses an accuracy that is not a share', () => {
    for (const accuracy of [NaN, -0.1, 1.1]) expect(() => proposeReward({ isValid: true, accuracy })).toThrow(RewardError);
  });
});

describe('solveReward', () => {
  it('pays -1 for a wrong format, -0.5 for a wrong answer, else its correctness', () => {
    expect(solveReward({ isWellFormed: false, accuracy: 1 })).toBe(-1);
    expect(solveReward({ isWellFormed: true, accuracy: 0 })).toBe(-0.5);
    expect(solveReward({ isWellFormed: true, accuracy: 0.4 })).toBe(0.4);
  });
});

describe('learnability', () => {
  it('is 0 where the solver always or never succeeds, else 1 - mean', () => {
    const attempts = (right: number) => Array.from({ length: 8 }, (_, i) => (i < right ? 1 : 0));
    expect([0, 1, 7, 8].map((right) => learnability(attempts(right)))).toEqual([0, 0.875, 0.125, 0]);
  });

  it('refuses a task without an attempt', () => {
    expect(() => learnability([])).toThrow(/at least one attempt/);
  });
});

describe('alphaSchedule', () => {
  it('keeps the first fifth, rises to 60 % of the steps and then slower', () => {
    const at = (step: number) => alphaSchedule(step, 1000);
    expect([at(0), at(199), at(200)]).toEqual(Array.from({ length: 3 }, () => ({ solve: 0.3, critique: 0.1 })));
    const rest = [400, 600, 800, 1000].map(at);
    expect(rest.map(({ solve }) => solve)).toEqual([0.55, 0.8, 0.875, 0.95].map((value) => expect.closeTo(value, 12)));
    expect(rest.map(({ critique }) => critique)).toEqual([0.35, 0.6, 0.7, 0.8].map((value) => expect.closeTo(value, 12)));
  });

  it('stays at the end beyond the last step', () => {
    expect(alphaSchedule(5000, 1000)).toEqual(alphaSchedule(1000, 1000));
  });

  it('refuses negative steps, and totals that are not positive', () => {
    for (const [step, total] of [
      [-1, 10],
      [NaN, 10],
      [0, 0],
      [0, -5],
      [0, Infinity],
    ] as const)
      expect(() => alphaSchedule(step, total)).toThrow(RewardError);
  });

  it('never falls', () => {
    fc.assert(
      fc.property(fc.nat(2000), fc.integer({ min: 1, max: 1000 }), (step, total) => {
        const [now, next] = [alphaSchedule(step, total), alphaSchedule(step + 1, total)];
        expect(next.solve).toBeGreaterThanOrEqual(now.solve);
        expect(next.critique).toBeGreaterThanOrEqual(now.critique);
      }),
    );
  });
});

describe('lengthReward', () => {
  it('grows with the logarithm of the tokens, and falls beyond the threshold', () => {
    const of = [0, 1, 10, 100, 2048, 4096, 8192].map((tokens) => lengthReward(tokens));
    expect(of).toEqual([0, 0, 0.302, 0.604, 1, 1, 0.3679].map((value) => expect.closeTo(value, 4)));
  });

  it('refuses settings without a meaning', () => {
    expect(() => lengthReward(-1)).toThrow(RewardError);
    expect(() => lengthReward(1, { maxLength: 1 })).toThrow(RewardError);
    expect(() => lengthReward(1, { penaltyThreshold: 0 })).toThrow(RewardError);
  });
});

describe('integratedSolveReward and integratedCritiqueReward', () => {
  it('mix two shares by alpha', () => {
    expect(integratedSolveReward({ correctness: 1, length: 0.5 }, 0.8)).toBeCloseTo(0.9, 12);
    expect(integratedCritiqueReward({ agreement: 0, creativity: 0.5 }, 0.6)).toBeCloseTo(0.2, 12);
  });

  it('stay within 0 and 1', () => {
    fc.assert(
      fc.property(share, share, share, (correctness, length, alpha) => {
        const reward = integratedSolveReward({ correctness, length }, alpha);
        expect(reward >= 0 && reward <= 1).toBe(true);
      }),
    );
  });

  it('refuse parts outside of 0 and 1', () => {
    expect(() => integratedSolveReward({ correctness: 2, length: 0 }, 0.5)).toThrow(RewardError);
    expect(() => integratedCritiqueReward({ agreement: 0, creativity: NaN }, 0.5)).toThrow(RewardError);
    expect(() => integratedCritiqueReward({ agreement: 0, creativity: 0 }, -0.5)).toThrow(RewardError);
  });
});
