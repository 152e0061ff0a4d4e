import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const read = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
const manifest = (path: string) => JSON.parse(read(path)) as { version: string; peerDependencies?: Record<string, string> };

describe('versions', () => {
  it('of the npm packages and the Python package are equal', () => {
    const { version, peerDependencies } = manifest('package.json');
    expect(manifest('packages/vf-search-models/package.json').version).toBe(version);
    expect(peerDependencies?.['vf-search-models']).toBe(version);
    expect(/^version = "(.*)"$/m.exec(read('python/pyproject.toml'))?.[1]).toBe(version);
  });
});
