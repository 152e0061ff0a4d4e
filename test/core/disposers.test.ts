import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Disposers } from '../../src/core/disposers.ts';

describe('Disposers', () => {
  it('takes every step in reverse, once, and throws the first failure after the last step', async () => {
    const taken: string[] = [];
    const disposers = new Disposers();
    const resource = {
      async [Symbol.asyncDispose]() {
        taken.push('resource');
      },
    };
    expect(disposers.use(resource)).toBe(resource);
    disposers.defer(() => Promise.reject(new Error('second')));
    disposers.defer(() => {
      throw new Error('first');
    });
    disposers.defer(() => void taken.push('last opened'));
    await expect(disposers.disposeAsync()).rejects.toThrow('first');
    expect(taken).toEqual(['last opened', 'resource']);
    await disposers[Symbol.asyncDispose]();
    expect(taken).toHaveLength(2);
  });

  it('closes nothing once all was handed over', async () => {
    const taken: string[] = [];
    const disposers = new Disposers();
    disposers.defer(() => void taken.push('step'));
    const moved = disposers.move();
    await disposers.disposeAsync();
    expect(taken).toEqual([]);
    await moved.disposeAsync();
    expect(taken).toEqual(['step']);
  });
});

describe('the sources', () => {
  it('name nothing that Node 22 does not have', () => {
    const newer =
      /\bnew (?:Async)?DisposableStack\b|\bFloat16Array\b|\bRegExp\.escape\(|\bPromise\.try\(|\bError\.isError\(|\bUint8Array\.fromBase64\(|\b(?:new|instanceof) SuppressedError\b/;
    const root = join(import.meta.dirname, '../..');
    const files = globSync(['src/**/*.ts', 'environments/**/*.ts'], { cwd: root });
    expect(files.length).toBeGreaterThan(100);
    expect(files.filter((file) => newer.test(readFileSync(join(root, file), 'utf8')))).toEqual([]);
  });
});
