import { describe, expect, it } from 'vitest';
import { isInside } from '../../src/files/is-inside.ts';

describe('isInside', () => {
  it.each([
    ['/pages', '/pages', true],
    ['/pages', '/pages/a.png', true],
    ['/pages', '/pages/deep/a.png', true],
    ['/pages', '/pages/..a.png', true],
    ['/', '/a.png', true],
    ['/pages', '/pages2/a.png', false],
    ['/pages', '/a.png', false],
    ['/pages', '/', false],
    ['/pages', '/pages/../secret.png', false],
  ])('compares whole names {%j, %j}', (folder, path, is) => {
    expect(isInside(folder, path)).toBe(is);
  });
});
