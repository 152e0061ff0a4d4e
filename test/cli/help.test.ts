/** The help of the real commands. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runInProcess } from './in-process.ts';

const root = join(import.meta.dirname, '../..');
const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { bin: Record<string, string> };

async function help(words: readonly string[]): Promise<string> {
  const [name, ...rest] = words;
  const { code: status, stdout, stderr } = await runInProcess(name!, [...rest, '--help'], { cwd: root, env: {} });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout;
}

/** The commands of a command, by what its help lists. */
const subcommands = (text: string) => [...(/^Commands\n((?: .+\n)+)/m.exec(text)?.[1] ?? '').matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name!);

describe('--help', () => {
  it.each(Object.keys(bin))('of %s keeps to 80 columns, in its subcommands too', { timeout: 120_000 }, async (name) => {
    const text = await help([name]);
    const below = subcommands(text);
    const known: Record<string, string[]> = {
      vf: [...Object.keys(bin).flatMap((each) => each.split('-')[1] ?? []), 'completion'],
      'vf-serve': ['environment', 'execute', 'gateway', 'policy', 'retrieve', 'tinker', 'verifiers'],
      'vf-pipeline': ['build', 'run', 'check'],
      'vf-rounds': ['bucket', 'review', 'focus', 'verify', 'extract', 'vet', 'rewrite', 'finalize', 'report', 'run'],
    };
    expect(below).toEqual(known[name] ?? []);
    for (const lines of [text, ...(await Promise.all(below.map((subcommand) => help([name, subcommand]))))]) {
      expect(lines).toContain(name);
      expect(lines.split('\n').filter((line) => line.length > 80)).toEqual([]);
    }
  });
});
