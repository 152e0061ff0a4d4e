import { describe, expect, it } from 'vitest';
import { firstError } from '../../src/core/errors.ts';

describe('firstError', () => {
  it('is the first failure, even when two resources then fail to close', () => {
    const failure = new Error('the work failed');
    const work = () => {
      using opened = new DisposableStack();
      for (const name of ['outer', 'inner']) {
        opened.defer(() => {
          throw new Error(name);
        });
      }
      throw failure;
    };
    let thrown: unknown = null;
    try {
      work();
    } catch (error) {
      thrown = error;
    }
    expect(thrown).not.toBe(failure);
    expect(firstError(thrown)).toBe(failure);
  });

  it.each([new Error('alone'), 'text', null])('is %s where nothing was suppressed', (thrown) => {
    expect(firstError(thrown)).toBe(thrown);
  });
});
