import { ConfigError } from 'vf-search';
import { rowsFromJson } from 'vf-search/environments/grpo-000';
import { describe, expect, it } from 'vitest';

describe('rowsFromJson', () => {
  it('reads objects and parallel lists', () => {
    const rows = [
      { query: 'a', ground_truth: 'b' },
      { query: 'c', ground_truth: '7' },
    ];
    expect(
      rowsFromJson([
        { query: 'a', question: 'x', answer: 'b' },
        { question: 'c', answer: 7 },
      ]),
    ).toEqual(rows);
    expect(rowsFromJson(rows)).toEqual(rows);
    expect(rowsFromJson({ queries: ['a', 'c'], ground_truths: ['b', '7'] })).toEqual(rows);
    expect(rowsFromJson({ questions: ['a', 'c'], answers: ['b', '7'] })).toEqual(rows);
  });

  it.each([
    [[], 'It has no rows.'],
    [{}, 'Expected a list of'],
    [null, 'Expected a list of'],
    ['x', 'Expected a list of'],
    [{ queries: ['a'], ground_truths: [] }, 'must be lists of equal length'],
    [{ queries: 'a', ground_truths: 'b' }, 'must be lists of equal length'],
    [[{ query: 'a', answer: 'b' }, { query: 'a' }], 'Row 2 must have'],
    [[{ query: 1, answer: 'b' }], 'Row 1 must have'],
    [[null], 'Row 1 must have'],
    [[{ query: 'a', answer: ' ' }], 'Row 1: expected answers in "answer", got a blank answer'],
    [[{ query: 'a', answer: "['x', 'y']" }], 'got a list written as text'],
  ])('refuses %j', (json, message) => {
    expect(() => rowsFromJson(json)).toThrow(ConfigError);
    expect(() => rowsFromJson(json)).toThrow(message);
  });
});
