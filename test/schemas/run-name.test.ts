import { describe, expect, it } from 'vitest';
import { folderOfName, isRunName } from '../../src/schemas/run-name.ts';

describe('isRunName', () => {
  it.each(['lr 1e-4, seed 2', 'a/b\\c: <b>x</b>', '基线', 'می‌خواهم', '👩‍🔬 42', 'é', '…', 'x'.repeat(80)])('takes %s', (name) => {
    expect(isRunName(name)).toBe(true);
  });

  it.each([
    '',
    ' ',
    ' a',
    'a ',
    'a\nb',
    'a\u0007',
    '\u001b[31mred',
    'a\u202eb',
    'a\u200bb',
    '\u2066a',
    '\ufeffa',
    '\u3164',
    '\u200d',
    'a\u2028b',
    '\ud800',
    '\u{e0041}a',
    'x'.repeat(81),
  ])('refuses %j', (name) => {
    expect(isRunName(name)).toBe(false);
  });
});

describe('folderOfName', () => {
  it.each([
    ['lr 1e-4, seed 2', 'lr-1e-4-seed-2'],
    ['../../etc/passwd', 'etc-passwd'],
    ['-rf', 'rf'],
    ['基线', 'run'],
    ['x'.repeat(80), 'x'.repeat(64)],
  ])('makes %s a part of a path', (name, folder) => {
    expect(folderOfName(name)).toBe(folder);
  });
});
