/** A run that a stranger packed: what a command writes, replaces or removes in it would lead to other files of the user. Each is refused in one line, before anything is written. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorLine } from '../../src/cli/command-line.ts';
import { assertOwnEntries } from '../../src/files/own-entries.ts';
import { lockRun } from '../../src/files/run-lock.ts';
import { restoreRollouts } from '../../src/trainer/records/rollout-archive.ts';
import { TrainingDirectory } from '../../src/trainer/records/training-directory.ts';
import { CommandHost } from '../cli/command-host.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const folder = new TemporaryFolder();
const host = new CommandHost();
const at = (...names: string[]) => join(folder.path, ...names);
const run = (command: string, ...words: string[]) => host.run(command, words, { cwd: folder.path, env: {} });
const PLAYED = ['search-r1', '-a', '{"dataset":"fact-world","corpus":"fact-world"}', '-n', '2', '-o', at('played')];
let evaluation = '';

beforeAll(async () => {
  evaluation = (JSON.parse((await run('vf-eval', ...PLAYED, '--json')).stdout) as { directory: string }).directory;
  const training = await TrainingDirectory.create({
    outputDirectory: at('made'),
    name: 'training',
    id: 'a',
    config: 'name = "training"\nsteps = 2\n[model]\npath = "nano-base"\n[environment]\nid = "search-r1"\n[policy.embedded]\n',
    configDigest: '0',
    startedAt: new Date(0),
  });
  await training[Symbol.asyncDispose]();
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** A fresh folder of the user with a thesis, a folder of drafts, and the copy of a run. */
function given(original: string): { readonly directory: string; readonly user: string } {
  for (const name of ['copy', 'user']) rmSync(at(name), { recursive: true, force: true });
  cpSync(original, at('copy'), { recursive: true });
  mkdirSync(at('user/drafts'), { recursive: true });
  for (const name of ['thesis.txt', 'drafts/x']) writeFileSync(at('user', name), 'years of work\n');
  return { directory: at('copy'), user: at('user') };
}

const ENTRIES: Readonly<Record<string, (path: string) => void>> = {
  'a link': (path) => symlinkSync(at('user/thesis.txt'), path),
  'a link to nothing': (path) => symlinkSync(at('user/new.txt'), path),
  'a link to a folder': (path) => symlinkSync(at('user'), path),
  'a pipe': (path) => void spawnSync('mkfifo', [path]),
};

const KINDS = Object.keys(ENTRIES);
const TRAINING = ['transcripts.txt', 'plots/overview.png', 'adapters', 'plots/reward.svg', 'checkpoints', 'best'];
const continued = ['-R', at('copy')];
const DOORS: readonly (readonly [string, () => string, readonly string[], readonly string[]])[] = [
  ['vf-train', () => at('made/training--a'), [...continued, '--steps', '3'], TRAINING],
  ['vf-train', () => at('made/training--a'), [...continued, '--dry-run'], ['adapters']],
  ['vf-eval', () => evaluation, [...PLAYED, ...continued], ['played.jsonl', 'trace.jsonl']],
  ['vf-score', () => evaluation, [at('copy'), '--in-place', '--weight', 'format_valid=0.1'], ['scoring.jsonl.partial', 'images']],
];

describe('a run with an entry that is a link or a pipe', () => {
  it.each(DOORS)('is refused by %s: nothing outside it, and nothing in it, changes (door %#)', async (command, original, words, names) => {
    for (const [i, name] of names.entries()) {
      const kind = KINDS[i % KINDS.length]!;
      const { directory, user } = given(original());
      const path = join(directory, name);
      rmSync(path, { recursive: true, force: true });
      mkdirSync(dirname(path), { recursive: true });
      ENTRIES[kind]!(path);
      const before = readdirSync(directory, { recursive: true });
      const { code, stderr, stdout } = await run(command, ...words);
      expect([code, stdout], `${name} as ${kind}: ${stderr}`).toEqual([2, '']);
      expect(stderr.trimEnd().split('\n').at(-1)).toContain(
        `${path} is ${kind.startsWith('a link') ? 'a link, through which' : 'a pipe, not a file'}`,
      );
      expect(readdirSync(directory, { recursive: true })).toEqual(before);
      expect(new Set(readdirSync(user, { recursive: true, encoding: 'utf8' }))).toEqual(new Set(['drafts', 'drafts/x', 'thesis.txt']));
      expect(readFileSync(join(user, 'thesis.txt'), 'utf8')).toBe('years of work\n');
    }
  });

  it('is refused by every command that locks it, also deep in it, and left without a lock', async () => {
    const { directory } = given(at('made/training--a'));
    mkdirSync(join(directory, 'round-1/phase1'), { recursive: true });
    symlinkSync(at('user'), join(directory, 'round-1/phase1/checkpoints'));
    await expect(lockRun(directory)).rejects.toThrow(/phase1\/checkpoints is a link/);
    expect(readdirSync(directory).filter((name) => name.startsWith('.lock'))).toEqual([]);
  });

  it('may be a socket or a device no more', async () => {
    const { directory } = given(at('made/training--a'));
    const socket = createServer().listen(join(directory, 'events.jsonl'));
    await once(socket, 'listening');
    await expect(assertOwnEntries(directory)).rejects.toThrow(/events\.jsonl is a socket, not a file; nothing was written\. Remove it/);
    socket.close();
    await expect(assertOwnEntries('/dev')).rejects.toThrow(/^\/dev\/\S+ is (?:a link|a device|a socket)/);
  });
});

describe('the folder of a run', () => {
  it('may be a link itself, as may the folders above it, and may hold links under hidden names and in node_modules', async () => {
    const { directory, user } = given(at('made/training--a'));
    mkdirSync(join(directory, 'node_modules/.bin'), { recursive: true });
    for (const name of ['.venv', 'node_modules/own']) symlinkSync(user, join(directory, name));
    symlinkSync(directory, at('linked'));
    symlinkSync(folder.path, at('above'));
    for (const path of [at('linked'), at('above/copy')]) await (await TrainingDirectory.open(path))[Symbol.asyncDispose]();
    await assertOwnEntries(at('nowhere'));
    expect(existsSync(join(user, 'thesis.txt'))).toBe(true);
  });
});

describe('packed rollouts that are damaged', () => {
  it.each([
    ['in their middle', (bytes: Buffer) => bytes.fill(0, 20, 40)],
    ['at their start', (bytes: Buffer) => bytes.fill(0, 0, 4)],
    ['at their end', (bytes: Buffer) => bytes.subarray(0, bytes.length - 9)],
  ])('%s are named, with what to do', async (_, damage) => {
    const path = at('rollouts/step-000003.jsonl.gz');
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, damage(gzipSync(`{"a":${JSON.stringify('xyzabc'.repeat(99))}}\n`)));
    const error: unknown = await restoreRollouts(dirname(path), 1).catch((thrown: unknown) => thrown);
    expect(errorLine(error)).toMatch(/step-000003\.jsonl\.gz is damaged and cannot be unpacked \(.*\)\. Restore it from a copy, or delete/);
    expect(existsSync(path)).toBe(true);
  });

  it('are no error of the system, whose numbers mean something else', () => {
    const error = Object.assign(new Error('incorrect header check'), { errno: -3, code: 'Z_DATA_ERROR' });
    expect(errorLine(error)).toMatch(/^unexpected Error: incorrect header check/);
    expect(errorLine(Object.assign(new Error('ESRCH'), { errno: -3, code: 'ESRCH' }))).toBe('no such process (ESRCH)');
  });
});
