import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { resolveOwn } from '../../src/registry/own-modules.ts';

const own = { index: 'file:///package/src/index.ts', environments: 'file:///package/environments/', extension: '.ts' };

describe('resolveOwn', () => {
  it.each([
    ['vf-search', 'file:///package/src/index.ts'],
    ['vf-search?x=1', 'file:///package/src/index.ts'],
    ['vf-search/environments/search-r1', 'file:///package/environments/search-r1/environment.ts'],
    ['vf-search/clients/scripted', 'file:///package/src/clients/scripted.ts'],
    ['vf-search/trainer/losses/kl', 'file:///package/src/trainer/losses/kl.ts'],
    ['vf-search/clients/../../secrets', null],
    ['vf-search/cli/vf-eval', null],
    ['vf-search-other', null],
    ['node:fs', null],
  ])('resolves %s to %s', (specifier, url) => {
    expect(resolveOwn(specifier, own)).toBe(url);
  });

  it('knows every folder that package.json exports', () => {
    const { exports } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as { exports: object };
    const folders = Object.keys(exports).flatMap((path) => /^\.\/([\w-]+)\/\*$/.exec(path)?.[1] ?? []);
    expect(folders.length).toBeGreaterThan(0);
    for (const folder of folders) expect(resolveOwn(`vf-search/${folder}/some-file`, own)).not.toBe(null);
  });
});
