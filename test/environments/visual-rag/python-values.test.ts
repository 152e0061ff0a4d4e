import { describe, expect, it } from 'vitest';
import { pythonFloat, pythonJson } from '../../../environments/visual-rag/python-values.ts';

const ones = (count: number) => '1'.repeat(count);

// What Python 3.11 gives for each.
describe('pythonJson', () => {
  it.each([
    ['[NaN, -Infinity, Infinity]', [NaN, -Infinity, Infinity]],
    ['{"NaN": NaN}', { NaN }],
    [String.raw`"\u0000python:NaN"`, '\0python:NaN'],
    ['["0e070", 0e071, NaN]', ['0e070', 0, NaN]],
    [ones(4300), Infinity],
    [`${ones(5000)}.0`, Infinity],
  ])('reads %j', (text, value) => {
    expect(pythonJson(text)).toEqual(value);
  });

  it.each(['{NaN: 1}', '-NaN', '1NaN', 'NaN1', '[NaNInfinity]', '"NaN', ones(4301), `[-${ones(4301)}]`, "{'score': 1}"])('refuses %j', (text) => {
    expect(pythonJson(text)).toBeUndefined();
  });
});

describe('pythonFloat', () => {
  it.each([
    [true, 1],
    ['1_0', 10],
    ['\u3000١٢.٥\n', 12.5],
    ['𝟗e𝟏', 90],
    ['-INF', -Infinity],
    ['nan', NaN],
  ])('reads %j', (value, number) => {
    expect(pythonFloat(value)).toBe(number);
  });

  it.each(['', '1__0', '_1', '1_', 'K', '0x1', 'ınf', null, [1]])('refuses %j', (value) => {
    expect(pythonFloat(value)).toBeUndefined();
  });
});
