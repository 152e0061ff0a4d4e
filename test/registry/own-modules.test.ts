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
    ['vf-search/trainer', 'file:///package/src/trainer.ts'],
    ['vf-search/engine', 'file:///package/src/engine/index.ts'],
    ['vf-search/environment-kit', 'file:///package/src/environment-kit.ts'],
    ['vf-search/trainer/losses/kl', null],
    ['vf-search/models/role-models', null],
    ['vf-search/clients/../../secrets', null],
    ['vf-search/cli/vf-eval', null],
    ['vf-search-other', null],
    ['node:fs', null],
  ])('resolves %s to %s', (specifier, url) => {
    expect(resolveOwn(specifier, own)).toBe(url);
  });

  it('resolves every entry of package.json to the file that it names', () => {
    const { exports } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
      exports: Record<string, string | { 'vf-search-source': string }>;
    };
    const entries = Object.entries(exports).filter(([path]) => path !== './package.json');
    expect(entries.length).toBeGreaterThan(5);
    for (const [path, target] of entries) {
      const file = (target as { 'vf-search-source': string })['vf-search-source'].replace('./', 'file:///package/').replace('*', 'some-file');
      expect(resolveOwn(path.replace('.', 'vf-search').replace('*', 'some-file'), own)).toBe(file);
    }
  });
});
