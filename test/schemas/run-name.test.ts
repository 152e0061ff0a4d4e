import { describe, expect, it } from 'vitest';
import { defaultRunName, folderOfName, givenRunName, isRunName, recordedRunName } from '../../src/schemas/run-name.ts';

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

describe('defaultRunName', () => {
  it.each([
    ['search-r1', 'models/nano-base', 'search-r1-nano-base'],
    ['./environments/mine/', 'Qwen/Qwen2.5-3B', 'mine-Qwen2-5-3B'],
    ['..', '...', 'run'],
    ['e', 'x'.repeat(100), `e-${'x'.repeat(62)}`],
  ])('%j and %j: %j', (environment, model, name) => {
    expect(defaultRunName(environment, model)).toBe(name);
  });
});

describe('givenRunName() and recordedRunName()', () => {
  const settings = { environment: { id: 'search-r1' }, model: { path: 'models/nano-base' }, name: 'search-r1-nano-base' };

  it('are null for a run without a name, and for the default one', () => {
    expect([null, 'search-r1-nano-base', 'night'].map((name) => givenRunName(name, 'search-r1', 'models/nano-base'))).toEqual([null, null, 'night']);
    expect(recordedRunName({ name: 'search-r1-nano-base' }, settings)).toBeNull();
    expect(recordedRunName({ name: 'night' }, settings)).toBe('night');
    // Of an earlier version, and damaged ones.
    expect(recordedRunName({}, { ...settings, name: 'day' })).toBe('day');
    expect([recordedRunName(null, null), recordedRunName({ name: 7 }, { model: [] })]).toEqual([null, null]);
  });
});
