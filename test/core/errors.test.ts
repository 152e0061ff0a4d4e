import { describe, expect, it } from 'vitest';
import { pathToFileURL } from 'node:url';
import type * as errors from '../../src/core/errors.ts';
import { ConfigError, firstError, ModelError, PolicyError, PromptTooLongError, RewardError, VfError } from '../../src/core/errors.ts';

describe('VfError', () => {
  const path = `${pathToFileURL('src/core/errors.ts').href}?copy`;

  it('recognises an error of another copy of the package by its class, and as nothing else', async () => {
    const copy = (await import(path)) as typeof errors;
    expect(copy.ModelError).not.toBe(ModelError);
    const judge = new copy.ModelError('no reply', { role: 'judge' });
    expect([VfError, ModelError].filter((kind) => !(judge instanceof kind))).toEqual([]);
    expect([RewardError, PolicyError, ConfigError].filter((kind) => judge instanceof kind)).toEqual([]);
    const long = new copy.PromptTooLongError('too long');
    expect([VfError, PolicyError, PromptTooLongError].every((kind) => long instanceof kind)).toBe(true);
    expect(new copy.PolicyError('down') instanceof PromptTooLongError).toBe(false);
  });

  it('takes no error of another package for one of its own, whatever its name is', () => {
    const theirs = Object.assign(new Error('theirs'), { name: 'ConfigError' });
    expect([theirs, { name: 'ConfigError' }, null, 'ConfigError'].some((thrown) => thrown instanceof ConfigError)).toBe(false);
  });
});

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
