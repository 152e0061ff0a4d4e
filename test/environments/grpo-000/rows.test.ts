import { ConfigError } from 'vf-search';
import { rowsFromCsv, rowsFromJson } from 'vf-search/environments/grpo-000';
import { describe, expect, it } from 'vitest';

describe('rowsFromJson', () => {
  it('reads objects and parallel lists', () => {
    const rows = [
      { query: 'a', ground_truth: 'b' },
      { query: 'c', ground_truth: '' },
    ];
    expect(
      rowsFromJson([
        { query: 'a', question: 'x', answer: 'b' },
        { question: 'c', answer: '' },
      ]),
    ).toEqual(rows);
    expect(rowsFromJson({ queries: ['a', 'c'], ground_truths: ['b', ''] })).toEqual(rows);
    expect(rowsFromJson({ questions: ['a', 'c'], answers: ['b', ''] })).toEqual(rows);
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
  ])('refuses %j', (json, message) => {
    expect(() => rowsFromJson(json)).toThrow(ConfigError);
    expect(() => rowsFromJson(json)).toThrow(message);
  });
});

describe('rowsFromCsv', () => {
  it('reads quoted fields, any line ends, columns in any order', () => {
    const text = '\ufeffid,Answer,question\r\n1,"a ""b"", c","two\nlines"\r\n\r\n2,x,y,\n3,,z';
    expect(rowsFromCsv(text)).toEqual([
      { query: 'two\nlines', ground_truth: 'a "b", c' },
      { query: 'y', ground_truth: 'x' },
      { query: 'z', ground_truth: '' },
    ]);
  });

  it.each([
    ['', 'must name the columns'],
    ['a,b\n1,2', 'must name the columns'],
    ['query,answer\n', 'It has no rows.'],
    ['query,answer\nq\n', 'Row 1 must have'],
    ['query,answer\n"q,a', 'is never closed'],
    ['query,answer\n"q"x,a', 'text behind a quoted field'],
  ])('refuses %j', (text, message) => {
    expect(() => rowsFromCsv(text)).toThrow(ConfigError);
    expect(() => rowsFromCsv(text)).toThrow(message);
  });

  it('reads 10 MB of quotes in one pass', () => {
    expect(rowsFromCsv(`query,answer\n"${'""'.repeat(5_000_000)}",a`)[0]!.query).toHaveLength(5_000_000);
  });
});
