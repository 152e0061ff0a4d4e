import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bonusesArgument,
  editDistance,
  programMeasures,
  soughtValues,
  valueDiversity,
  withBonuses,
} from '../../../environments/self-play-code/bonuses.ts';

const PROGRAM = { cognitive: 3, cyclomatic: 4, volume: 100, effort: 2500, nodes: ['a', 'b', 'c', 'd'] };

describe('programMeasures', () => {
  it('weighs effort, cyclomatic complexity and volume, each up to a most', () => {
    // 0.5 * 2500 / 10000 + 0.3 * 4 / 10 + 0.2 * 100 / 500.
    expect(programMeasures(PROGRAM, [])).toEqual({ complexity: 0.2, edit_distance: 0, halstead: expect.closeTo(0.285, 12) as number });
    expect(programMeasures({ ...PROGRAM, cognitive: 45, cyclomatic: 99, volume: 1e6, effort: 1e6 }, [])).toMatchObject({
      complexity: 3,
      halstead: 1,
    });
  });

  it('measures the mean distance from the references', () => {
    const references = [PROGRAM, { ...PROGRAM, nodes: ['a', 'x', 'c'] }];
    expect(programMeasures(PROGRAM, references).edit_distance).toBe(0.25);
  });
});

describe('editDistance', () => {
  it('counts insertions, deletions and replacements over the length of the longer', () => {
    expect(editDistance('kitten'.split(''), 'sitting'.split(''))).toBeCloseTo(3 / 7, 12);
    expect([editDistance([], []), editDistance([], ['a']), editDistance(['a'], ['a'])]).toEqual([0, 1, 0]);
  });

  it('is the same both ways, and 0 for equal lists alone', () => {
    const list = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 8 });
    fc.assert(
      fc.property(list, list, (a, b) => {
        expect(editDistance(a, b)).toBe(editDistance(b, a));
        expect(editDistance(a, b) === 0).toBe(a.join() === b.join());
        expect(editDistance(a, b)).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('valueDiversity', () => {
  it('is 1 less the share of the value among those that are known', () => {
    expect(valueDiversity(['1'], ['1', '1', '1', '2'])).toBe(0.25);
    expect(valueDiversity(['3'], ['1', '2'])).toBe(1);
    expect(valueDiversity(['1', '3'], ['1', '2'])).toBe(0.75);
    expect(valueDiversity(['1'], [])).toBe(1);
  });

  it('is about what others have to find', () => {
    const io = { snippet: '', input: 'in', output: 'out', imports: [] };
    const found = (['code_i', 'code_o', 'code_e'] as const).map((kind) => soughtValues({ kind, ...io }));
    expect(found).toEqual([['in'], ['out'], ['out']]);
    expect(soughtValues({ kind: 'code_f', snippet: '', inputs: ['1'], outputs: ['2'], message: '', imports: [] })).toEqual(['1', '2']);
  });
});

describe('withBonuses', () => {
  const measures = { complexity: 0.4, halstead: 0.2, diversity: 0.9 };
  const terms = { complexity: { coef: 0.5 }, halstead: { coef: 10, max: 0.3 }, edit_distance: { coef: 1 } };

  it('adds the bonuses, multiplies by them, or adds their product; each is at most its maximum', () => {
    // 0.5 * 0.4 = 0.2 and 10 * 0.2 = 2, at most 0.3; nothing was measured for the distance.
    const paid = (combine?: 'sum' | 'multiply' | 'sum_multiply') => withBonuses(0.5, measures, combine === undefined ? terms : { ...terms, combine });
    expect([paid(), paid('sum'), paid('multiply'), paid('sum_multiply')]).toEqual(
      [1, 1, 0.03, 0.56].map((value) => expect.closeTo(value, 12) as number),
    );
    expect(withBonuses(0.5, { complexity: 99 }, { complexity: { coef: 1 } })).toBe(1);
  });

  it('gives no bonus to what cannot be learned from, and none where nothing was measured', () => {
    expect([-1, -0.5, 0].map((reward) => withBonuses(reward, measures, terms))).toEqual([-1, -0.5, 0]);
    expect(withBonuses(0.5, {}, { ...terms, combine: 'multiply' })).toBe(0.5);
  });
});

describe('bonusesArgument', () => {
  it('takes known bonuses with positive numbers', () => {
    for (const value of [{}, { complexity: { coef: 0.1 } }, { diversity: { coef: 1, max: 2 }, combine: 'multiply' }])
      expect(bonusesArgument.accepts(value)).toBe(true);
    for (const value of [
      null,
      [],
      1,
      { novelty: { coef: 1 } },
      { complexity: 1 },
      { complexity: {} },
      { complexity: { coef: 0 } },
      { complexity: { coef: 1, max: -1 } },
      { complexity: { coef: 1, min: 0 } },
      { combine: 'add' },
    ])
      expect(bonusesArgument.accepts(value)).toBe(false);
  });
});
