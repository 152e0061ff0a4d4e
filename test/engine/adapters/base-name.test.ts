import { isAbsolute, join, resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { baseName, cachedHubId } from '../../../src/engine/adapters/base-name.ts';

const COMMIT = '0123456789abcdef0123456789abcdef01234567';

describe('baseName', () => {
  it('keeps a hub id and a relative path, which peft and transformers look for in the working directory', () => {
    for (const named of ['Qwen/Qwen2.5-3B', 'models/mine', '../mine', 'mine']) expect(baseName(named)).toBe(named);
  });

  it('is the hub id of a folder in the cache of the hub', () => {
    const cached = join('/home/somebody/.cache/huggingface/hub', 'models--Qwen--Qwen2.5-3B', 'snapshots', COMMIT);
    expect([baseName(cached), baseName(`${cached}/`)]).toEqual(['Qwen/Qwen2.5-3B', 'Qwen/Qwen2.5-3B']);
  });

  it('{is never an absolute path, and leads from the working directory to the same folder}', () => {
    expect(baseName(process.cwd())).toBe('.');
    const part = fc.stringMatching(/^[a-z0-9 ._-]{1,8}$/).filter((text) => !/^\.+$/.test(text));
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const path = resolve('/', ...parts);
        expect(isAbsolute(baseName(path))).toBe(false);
        expect(resolve(baseName(path))).toBe(path);
      }),
    );
  });
});

describe('cachedHubId', () => {
  it('knows models alone, with an organisation or without, in a snapshot', () => {
    expect(cachedHubId(`/hub/models--gpt2/snapshots/${COMMIT}`)).toBe('gpt2');
    for (const path of [`/hub/datasets--a--b/snapshots/${COMMIT}`, '/hub/models--a--b', `/hub/models--a--b/snapshots/${COMMIT}/x`, 'a/b'])
      expect(cachedHubId(path)).toBeNull();
  });
});
