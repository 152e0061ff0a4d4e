import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const canary = join(import.meta.dirname, 'floating-promise.generated.ts');
afterAll(() => rmSync(canary, { force: true }));

describe('oxlint', () => {
  it('still finds a promise that is not awaited, so a green lint means something', { tags: 'long' }, () => {
    writeFileSync(canary, 'async function work(): Promise<void> {}\nwork();\n');
    const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/oxlint'), [canary], { cwd: root, encoding: 'utf8' });
    expect(stdout).toContain('no-floating-promises');
    expect(status).toBe(1);
  });
});
