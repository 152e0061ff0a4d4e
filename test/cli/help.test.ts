/** The help of the real commands, each in a child process. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

const root = join(import.meta.dirname, '../..');
const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { bin: Record<string, string> };

function help(words: readonly string[]): string {
  const [name, ...rest] = words;
  const args = ['--conditions=vf-search-source', join(root, `src/cli/${name}.ts`), ...rest, '--help'];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env: BARE_ENVIRONMENT });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout;
}

/** The commands of a command, by what its help lists. */
const subcommands = (text: string) => [...text.matchAll(/^ {2}(\w+) (?:\[options\]|<rounds\.toml>)/gm)].map(([, name]) => name!);

describe('--help', () => {
  it.each(Object.keys(bin))('of %s keeps to 80 columns, in its subcommands too', { timeout: 120_000 }, (name) => {
    const text = help([name]);
    const below = subcommands(text);
    const known: Record<string, string[]> = {
      'vf-serve': ['environment', 'execute', 'policy', 'retrieve', 'verifiers'],
      'vf-pipeline': ['build', 'run', 'check'],
      'vf-rounds': ['bucket', 'review', 'focus', 'verify', 'extract', 'vet', 'rewrite', 'finalize', 'report', 'run'],
    };
    expect(below).toEqual(known[name] ?? []);
    for (const lines of [text, ...below.map((subcommand) => help([name, subcommand]))]) {
      expect(lines).toContain(name);
      expect(lines.split('\n').filter((line) => line.length > 80)).toEqual([]);
    }
  });
});
