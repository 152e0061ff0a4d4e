/** vf-train with command lines that it cannot take. */
import { afterAll, describe, expect, it } from 'vitest';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { CommandHost } from '../cli/command-host.ts';

const host = new CommandHost();
afterAll(() => host[Symbol.asyncDispose]());

describe('vf-train', () => {
  it.each<[string, string[], RegExp]>([
    ['a key by the name it has elsewhere', ['--set', 'optimizer.lr=1e-5'], /did you mean optimizer\.learning_rate\?/],
    ['JSON that is 50,000 levels deep', ['-a', `{"a": ${'['.repeat(50_000)}${']'.repeat(50_000)}}`], /-a may be nested at most 64 levels deep/],
    ['half a secret', ['-a', '{"service_token": "hunter2'], /-a must be a JSON object .*may hold a secret, which is not valid JSON/],
  ])('refuses %s in one line, and shows where with -v', async (_, args, message) => {
    using folder = new TemporaryFolder();
    const run = (more: readonly string[] = []) =>
      host.run('vf-train', ['search-r1', '--preset', 'laptop', ...args, ...more], { cwd: folder.path, env: { HOME: folder.path } });
    const plain = await run();
    expect([plain.code, plain.stderr.trimEnd().split('\n').length]).toEqual([2, 1]);
    expect(plain.stderr).toMatch(message);
    const verbose = await run(['-v']);
    expect(verbose.code).toBe(2);
    expect(verbose.stderr).toMatch(/\nConfigError: .*\n +at /);
    for (const { stderr } of [plain, verbose]) expect(stderr).not.toContain('hunter2');
  });
});
