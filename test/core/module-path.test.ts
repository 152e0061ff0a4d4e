import { describe, expect, it } from 'vitest';
import { isModulePath } from '../../src/core/module-path.ts';

describe('isModulePath', () => {
  it('is a path, not an id', () => {
    expect(['ratio', 'nll', './a.ts', 'a.js', 'dir/a', 'dir\\a'].map(isModulePath)).toEqual([false, false, true, true, true, true]);
  });
});
