import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { sumsClient, sumsOptions } from '../evaluate/sums-world.ts';
import { runInProcess } from './in-process.ts';

const COMMAND = ['--conditions=vf-search-source', '--no-warnings', join(import.meta.dirname, '../../src/cli/vf-export.ts')];

let directory: string;
let run: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-export-'));
  run = join(directory, 'run');
  await recordEvaluation(sumsOptions(run));
});
afterAll(() => rm(directory, { recursive: true }));

const vfExport = (...args: string[]) => runInProcess('vf-export', args, { cwd: directory, env: {} });

describe('vf-export', () => {
  it('writes one rollout a line to a file or to stdout, and the count to stderr', async () => {
    const path = join(directory, 'rollouts.jsonl');
    const [file, stdout] = await Promise.all([vfExport(run, '-o', path), vfExport(run, '-o', '-')]);
    expect(file).toEqual({ code: 0, stdout: '', stderr: `vf-export: 6 rollouts written to ${path}\n` });
    expect(stdout).toMatchObject({ code: 0, stderr: 'vf-export: 6 rollouts written to stdout\n' });
    expect(await readFile(path, 'utf8')).toBe(stdout.stdout);
    expect(
      stdout.stdout
        .trimEnd()
        .split('\n')
        .map((line) => Object.keys(JSON.parse(line) as object).length),
    ).toEqual(Array(6).fill(17));
    expect((await readdir(directory)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('names the run in its line and in each row', async () => {
    const named = join(directory, 'named');
    const { run: facts, ...options } = sumsOptions(named);
    await recordEvaluation({ ...options, run: { ...facts, name: 'one night' } });
    for (const flags of [[], ['--sft']]) {
      const { stdout, stderr } = await vfExport(named, '-o', '-', ...flags);
      expect(stderr).toBe('vf-export: 6 rollouts of "one night" written to stdout\n');
      const rows = stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { run_name?: string });
      expect(rows.map(({ run_name: name }) => name)).toEqual(Array(6).fill('one night'));
    }
  });

  it('writes through a link without replacing it', async () => {
    const [target, link] = [join(directory, 'target'), join(directory, 'link')];
    await writeFile(target, 'old');
    await symlink(target, link);
    expect((await vfExport(run, '-o', link)).code).toBe(0);
    expect((await readFile(target, 'utf8')).split('\n')).toHaveLength(7);
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
  });

  it('replaces no record of a run, under any of its names', async () => {
    const record = join(run, 'results.jsonl');
    const before = await readFile(record, 'utf8');
    const [link, linked] = [join(directory, 'link-to-record'), join(directory, 'linked-run')];
    await symlink(record, link);
    await symlink(run, linked);
    for (const output of [record, link, join(linked, 'tokens.jsonl')]) {
      const { code, stderr } = await vfExport(run, '-o', output);
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: expect.stringMatching(
          /^vf-export: .* \(-o\) is a file of the run .*run and was not replaced\. Name a file outside the run's folder\.\n$/,
        ),
      });
    }
    expect(await readFile(record, 'utf8')).toBe(before);
  });

  it('ends quietly when its reader has seen enough', async () => {
    const child = spawn('sh', ['-c', `"$@" ${run} -o - | head -c 100 > /dev/null; echo done`, 'sh', process.execPath, ...COMMAND]);
    let stderr = '';
    child.stderr.on('data', (chunk) => (stderr += chunk));
    await once(child, 'close');
    expect(stderr).not.toMatch(/EPIPE|unexpected/);
  });

  it.concurrent.each<[string, () => string[], RegExp]>([
    ['no run directory', () => [join(directory, 'none'), '-o', '-'], /The directory .*none does not exist/],
    ['no output', () => [run], /^vf-export: -o is missing: file to write; .*; vf-export --help shows more/],
    ['an unknown flag', () => [run, '-o', '-', '--out', 'x'], /Unknown flag --out \(did you mean --output\?\)|Unknown flag --out;/],
    ['two directories', () => [run, run, '-o', '-'], /takes one argument, <run directory>, got 2/],
    ['a directory as output', () => [run, '-o', directory], /is a directory/],
    ['an output nowhere', () => [run, '-o', join(directory, 'a', 'b')], /The directory .*\/a for -o does not exist/],
  ])('answers %s with one line and exit code 2', async (_, args, message) => {
    const { code, stdout, stderr } = await vfExport(...args());
    expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
    expect(stderr).toMatch(message);
  });

  it('says of a chat run that it has no tokens, and leaves an older export in place', async () => {
    const chat = join(directory, 'chat');
    await mkdir(chat);
    await recordEvaluation(sumsOptions(chat, { client: sumsClient({ kind: 'chat' }) }));
    const path = join(directory, 'kept.jsonl');
    await vfExport(run, '-o', path);
    const { code, stderr } = await vfExport(chat, '-o', path);
    expect([code, stderr]).toEqual([2, expect.stringContaining('it has no token ids or log-probs to export') as string]);
    expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(7);
  });

  it('refuses a --min-reward that no rollout has, and leaves an older export in place', async () => {
    const path = join(directory, 'older.jsonl');
    await vfExport(run, '-o', path);
    const { code, stderr } = await vfExport(run, '--min-reward', '5', '-o', path);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^vf-export: No rollout of .* has a reward of at least 5 and is whole; nothing was written/) as string,
    ]);
    expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(7);
  });

  it('shows its help on request', async () => {
    const { code, stdout } = await vfExport('--help');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/Usage\n  vf-export .*<run directory>[^]*readRollouts/) as string]);
  });
});
