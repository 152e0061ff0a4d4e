/** vf-train with command lines that it cannot take. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const LAUNCHER = join(import.meta.dirname, '../../bin/vf-train.js');

function run(args: readonly string[], cwd: string): Promise<{ code: unknown; stderr: string }> {
  const { PATH = '' } = process.env;
  return new Promise((resolve) => {
    execFile(process.execPath, [LAUNCHER, ...args], { cwd, env: { PATH, HOME: cwd } }, (error, _, stderr) =>
      resolve({ code: error?.code ?? 0, stderr }),
    );
  });
}

describe.concurrent('vf-train', { timeout: 30_000 }, () => {
  it.each<[string, string[], RegExp]>([
    ['a key by the name it has elsewhere', ['--set', 'optimizer.lr=1e-5'], /did you mean optimizer\.learning_rate\?/],
    ['JSON that is 50,000 levels deep', ['-a', `{"a": ${'['.repeat(50_000)}${']'.repeat(50_000)}}`], /-a may be nested at most 64 levels deep/],
    ['half a secret', ['-a', '{"service_token": "hunter2'], /-a must be a JSON object .*may hold a secret, which is not valid JSON/],
  ])('refuses %s in one line, and shows where with -v', async (_, args, message) => {
    using folder = new TemporaryFolder();
    const plain = await run(['search-r1', '--preset', 'laptop', ...args], folder.path);
    expect([plain.code, plain.stderr.trimEnd().split('\n').length]).toEqual([2, 1]);
    expect(plain.stderr).toMatch(message);
    const verbose = await run(['search-r1', '--preset', 'laptop', ...args, '-v'], folder.path);
    expect(verbose.code).toBe(2);
    expect(verbose.stderr).toMatch(/\nConfigError: .*\n +at /);
    for (const { stderr } of [plain, verbose]) expect(stderr).not.toContain('hunter2');
  });
});
