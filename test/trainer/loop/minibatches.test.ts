import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { demonstration, type TrainingSequence, trainingSequence } from '../../../src/trainer/credit.ts';
import { intoMinibatches } from '../../../src/trainer/loop/minibatches.ts';
import { trajectory } from '../some-trajectories.ts';

const group = (id: string, role = 'policy', task: string | null = null): TrainingSequence[] => [
  trainingSequence(trajectory(`${id}/0`, { role, task }), 1),
  trainingSequence(trajectory(`${id}/1`, { role, task }), -1),
];
const shown = (id: string): TrainingSequence[] => [demonstration(trajectory(`${id}/0`, { reward: null, logProbs: null }))];
const many = (count: number, role: string, task: string | null = null) =>
  Array.from({ length: count }, (_, i) => group(`${role}-${task}-${i}`, role, task));
const namesOf = (minibatches: readonly (readonly TrainingSequence[])[]) =>
  minibatches.map((minibatch) => [...new Set(minibatch.map(({ trajectory: { groupId } }) => groupId))]);

describe('intoMinibatches', () => {
  it('takes groups of one role in their order', () => {
    expect(
      namesOf(
        intoMinibatches(
          ['a', 'b', 'c', 'd', 'e'].map((id) => group(id)),
          2,
        ),
      ),
    ).toEqual([
      ['a', 'b'],
      ['c', 'd', 'e'],
    ]);
  });

  it('gives every minibatch its share of each role and task, which a source gives one after the other', () => {
    const groups = [...many(4, 'propose', 'i'), ...many(4, 'propose', 'o'), ...many(8, 'solve'), ...many(16, 'critic')];
    const counts = intoMinibatches(groups, 4).map((minibatch) =>
      Object.fromEntries(
        [...Map.groupBy(minibatch, ({ trajectory: { role, task } }) => `${role}/${task}`)].map(([kind, { length }]) => [kind, length / 2]),
      ),
    );
    expect(counts).toEqual(Array.from({ length: 4 }, () => ({ 'propose/i': 1, 'propose/o': 1, 'solve/null': 2, 'critic/null': 4 })));
  });

  it('leaves no minibatch empty where roles have fewer groups than there are minibatches', () => {
    expect(namesOf(intoMinibatches([...many(1, 'propose'), ...many(1, 'solve')], 2))).toEqual([['propose-null-0'], ['solve-null-0']]);
  });

  it('keeps a single minibatch in the order of the batch', () => {
    const groups = [...many(2, 'propose'), ...many(4, 'solve')];
    expect(intoMinibatches(groups, 1)).toEqual([groups.flat()]);
  });

  it('spreads demonstrations by themselves, and gives them no minibatch without rollouts', () => {
    const groups = [shown('x'), shown('y'), ...many(2, 'propose')];
    expect(namesOf(intoMinibatches(groups, 4))).toEqual([
      ['propose-null-0', 'x'],
      ['propose-null-1', 'y'],
    ]);
    expect(namesOf(intoMinibatches([shown('x'), shown('y')], 4))).toEqual([['x', 'y']]);
  });

  it('has every group once and whole, in minibatches that differ by at most one group {roles, count}', () => {
    const roles = fc.array(fc.constantFrom('propose', 'solve', 'critic'), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(roles, fc.integer({ min: 1, max: 8 }), (all, count) => {
        const groups = all.map((role, i) => group(String(i), role));
        const minibatches = intoMinibatches(groups, count);
        expect(new Set(minibatches.flat())).toEqual(new Set(groups.flat()));
        expect(minibatches.flat()).toHaveLength(groups.length * 2);
        const names = namesOf(minibatches);
        expect(names.flat()).toHaveLength(groups.length);
        const sizes = names.map(({ length }) => length);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }),
    );
  });
});
