import { assert, anything, array, constantFrom, property, record } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limoRows, parseLimoRow } from '../../src/data/limo-rows.ts';

const ROW = { question: 'What is 2 + 3?', solution: 'Count on from 2:\n3, 4, 5.', answer: '5' };

describe('parseLimoRow', () => {
  it('makes the question the message of a user, and keeps solution and answer as they are', () => {
    expect(parseLimoRow({ ...ROW, solution: ' x\n', source: 'ours' })).toEqual({
      ok: true,
      row: { prompt: [{ role: 'user', content: 'What is 2 + 3?' }], solution: ' x\n', answer: '5' },
    });
  });

  it.each([
    ['text', 'it is not an object'],
    [null, 'it is not an object'],
    [[ROW], 'it is not an object'],
    [{ question: 'q', answer: '1' }, 'it has no solution'],
    [{ ...ROW, question: '' }, 'its question is blank'],
    [{ ...ROW, solution: ' \n\t' }, 'its solution is blank'],
    [{ ...ROW, answer: 5 }, 'its answer is not text'],
    [{ ...ROW, answer: null }, 'its answer is not text'],
  ])('refuses %j', (value, problem) => {
    expect(parseLimoRow(value)).toEqual({ ok: false, problem });
  });

  it('never throws, for {any value}', () => {
    assert(
      property(anything(), (value) => {
        expect(typeof parseLimoRow(value).ok).toBe('boolean');
      }),
    );
  });
});

describe('limoRows', () => {
  it('keeps usable rows in order and counts the others, for {any mixture}', () => {
    const good = record({ question: constantFrom('q', '漢'), solution: constantFrom('s', 'x\ny'), answer: constantFrom('0', '1') });
    const bad = constantFrom<unknown>(null, [], 'text', { question: 'q' }, { ...ROW, answer: ' ' });
    assert(
      property(array(good), array(bad), (rows, others) => {
        const mixed = [...others.slice(1), ...rows, ...others.slice(0, 1)];
        const expected = rows.map(({ question, solution, answer }) => ({ prompt: [{ role: 'user', content: question }], solution, answer }));
        expect(limoRows(mixed)).toEqual(rows.length === 0 ? { error: 'empty' } : { rows: expected, skipped: others.length });
      }),
    );
  });
});
