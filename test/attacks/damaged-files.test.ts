/** One damaged file of a run: each command that reads it refuses in one line that names it and changes nothing, and vf-view shows all other runs. */
import { spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CommandHost } from '../cli/command-host.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { writeTraining } from '../viewing/written-runs.ts';

const folder = new TemporaryFolder();
const host = new CommandHost();
const at = (...names: string[]) => join(folder.path, ...names);
const run = (command: string, ...words: string[]) => host.run(command, words, { cwd: folder.path, env: {} });
/** Plays within milliseconds: its corpus is small. */
const PLAYED = ['search-r1', '-a', '{"dataset":"fact-world","corpus":"fact-world"}', '-n', '2', '-o', at('played')];
let good = '';

beforeAll(async () => {
  writeFileSync(at('outside'), 'root:x:0:0\n');
  const { stdout } = await run('vf-eval', ...PLAYED, '--json');
  good = (JSON.parse(stdout) as { directory: string }).directory;
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
  'a link to the outside': (path) => symlinkSync(at('outside'), path),
  'a link to nowhere': (path) => symlinkSync(at('nowhere'), path),
  'a pipe': (path) => void spawnSync('mkfifo', [path]),
  'a folder': (path) => mkdirSync(path),
  'a device': (path) => symlinkSync('/dev/zero', path),
  'no UTF-8': (path) => writeFileSync(path, Buffer.from([0x7b, 0xff, 0xfe, 0x0a])),
  'half a line of JSON, and more lines': (path) => writeFileSync(path, '{"half":\n{"x":1}\n'),
  'a list': (path) => writeFileSync(path, '[1]\n'),
};
const UNREADABLE = /unexpected|root:x| {4}at /;

/** Commands that read the files of an evaluation. */
const READERS: Readonly<Record<string, (directory: string) => readonly [string, ...string[]]>> = {
  'vf-export': (directory) => ['vf-export', directory, '-o', at('out.jsonl')],
  'vf-compare': (directory) => ['vf-compare', good, directory],
  'vf-score': (directory) => ['vf-score', directory, '-o', at('scored'), '--weight', 'format_valid=0.1'],
  'vf-eval -R': (directory) => ['vf-eval', ...PLAYED, '-R', directory],
};
const all = Object.keys(READERS);
const FILES = { 'metadata.json': all, 'results.jsonl': all, 'tokens.jsonl': ['vf-export', 'vf-eval -R'] } as const;
const CASES = Object.entries(FILES).flatMap(([file, readers]) => readers.map((reader) => [reader, file] as const));

describe('an evaluation with a damaged file', () => {
  it.each(CASES)('is refused by %s in one line that names %s', async (reader, file) => {
    for (const [damage, put] of Object.entries(DAMAGES)) {
      const directory = at('damaged');
      for (const name of ['damaged', 'scored']) rmSync(at(name), { recursive: true, force: true });
      writeFileSync(at('out.jsonl'), 'kept\n');
      cpSync(good, directory, { recursive: true });
      rmSync(join(directory, file));
      put(join(directory, file));
      const [command, ...words] = READERS[reader]!(directory);
      const { code, stderr } = await run(command, ...words);
      // Notices come first.
      const last = stderr.trimEnd().split('\n').at(-1)!;
      expect({ damage, code, last }).toMatchObject({ damage, code: 2, last: expect.stringMatching(new RegExp(`^${command}: .*${file}`)) as string });
      expect(stderr).not.toMatch(UNREADABLE);
      expect(readFileSync(at('out.jsonl'), 'utf8')).toBe('kept\n');
      expect([existsSync(at('scored')), existsSync(at('nowhere'))]).toEqual([false, false]);
    }
  });

  it('of which only null bytes are left, as after a power cut, is not taken for a result', async () => {
    const directory = at('cut');
    cpSync(good, directory, { recursive: true });
    writeFileSync(join(directory, 'results.jsonl'), Buffer.alloc(5000));
    for (const reader of ['vf-export', 'vf-compare', 'vf-score']) {
      const [command, ...words] = READERS[reader]!(directory);
      const { code, stderr } = await run(command, ...words);
      expect({ reader, code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('cut') as string });
    }
  });
});

/** A copy of the run `good` with its first line of a file again at the end, and that line changed. */
function repeated(file: string, change: (line: Record<string, unknown>) => Record<string, unknown>): string {
  const directory = at('repeated');
  for (const name of ['repeated', 'scored']) rmSync(at(name), { recursive: true, force: true });
  cpSync(good, directory, { recursive: true });
  const text = readFileSync(join(directory, file), 'utf8');
  const first = text.split('\n', 1)[0]!;
  const again = change(JSON.parse(first) as Record<string, unknown>);
  appendFileSync(join(directory, file), `${Object.keys(again).length === 0 ? first : JSON.stringify(again)}\n`);
  return directory;
}

describe('an evaluation with two lines for one rollout', () => {
  const OTHER = {
    'results.jsonl': (line: Record<string, unknown>) => ({ ...line, reward: 0.875 }),
    'tokens.jsonl': ({ token_ids: ids, ...line }: Record<string, unknown>) => ({ ...line, token_ids: (ids as number[]).map((id) => id + 1) }),
  };
  const cases = CASES.filter(([, file]) => file !== 'metadata.json') as [string, keyof typeof OTHER][];

  it.each(cases)('is refused by %s if the lines of %s differ, and nothing changes', async (reader, file) => {
    const directory = repeated(file, OTHER[file]);
    const before = readFileSync(join(directory, file), 'utf8');
    const [command, ...words] = READERS[reader]!(directory);
    const { code, stderr } = await run(command, ...words);
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(new RegExp(`Line 3 of \\S+${file} repeats rollout "\\S+" of line 1 with other contents\\. Delete`)) as string,
    });
    expect(readFileSync(join(directory, file), 'utf8')).toBe(before);
  });

  it.each(cases)('is read by %s without the line of %s that repeats another word for word, and says so', async (reader, file) => {
    const directory = repeated(file, () => ({}));
    const [command, ...words] = READERS[reader]!(directory);
    const { code, stdout, stderr } = await run(command, ...words);
    expect({ code, said: stdout + stderr }).toMatchObject({ code: 0, said: expect.stringContaining(`repeats line 1 (rollout `) as string });
    expect(stdout + stderr).not.toMatch(/playing \d+ again/);
    const left = { 'vf-eval -R': join(directory, file), 'vf-score': at('scored/results.jsonl'), 'vf-export': at('out.jsonl') };
    const path = left[reader as keyof typeof left] ?? join(good, file);
    expect(readFileSync(path, 'utf8').trimEnd().split('\n')).toHaveLength(2);
  });

  it('has a note in the page of vf-view, which shows the later line', async () => {
    const { code, stderr } = await run('vf-view', repeated('results.jsonl', OTHER['results.jsonl']), '--export', at('page.html'));
    expect({ code, stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/1 line of results\.jsonl has the id of a finished rollout/) as string,
    });
  });
});

describe('an evaluation', () => {
  it('whose results are a folder is told what to restore, and one that is a file or a pipe what it is', async () => {
    const directory = at('damaged');
    rmSync(directory, { recursive: true, force: true });
    cpSync(good, directory, { recursive: true });
    rmSync(join(directory, 'results.jsonl'));
    mkdirSync(join(directory, 'results.jsonl'));
    spawnSync('mkfifo', [at('fifo')]);
    for (const command of ['vf-export', 'vf-compare', 'vf-score']) {
      const more = command === 'vf-compare' ? [good] : ['-o', at('unwritten')];
      expect((await run(command, directory, ...more)).stderr).toContain('results.jsonl is a folder where a file was. Restore the file.');
      expect((await run(command, at('fifo'), ...more)).stderr).toContain('fifo is not a folder, so it is not a run.');
    }
    expect((await run('vf-eval', 'search-r1', '-a', 'topk=1e999')).stderr).toContain('topk must be an integer of at least 1, got "1e999"');
  });
});

describe('vf-view --export', () => {
  it('shows all runs but the damaged parts, and says which file of which run', async () => {
    const gz = gzipSync('x'.repeat(100_000));
    // A step that a training has just packed vanishes, too, so that one that leads nowhere is not listed.
    const { 'a link to nowhere': toNowhere, ...listed } = DAMAGES;
    const steps: Readonly<Record<string, (path: string) => void>> = {
      ...listed,
      'half a gz': (path) => writeFileSync(`${path}.gz`, gz.subarray(0, gz.length / 2)),
      'an empty gz': (path) => writeFileSync(`${path}.gz`, ''),
    };
    const names = Object.keys(steps);
    for (const [i, damage] of names.entries()) {
      const training = writeTraining(at('many', `t${i}`));
      steps[damage]!(join(training, 'rollouts/step-000003.jsonl'));
    }
    const led = join(writeTraining(at('many', 'led')), 'events.jsonl');
    rmSync(led);
    toNowhere!(led);
    const { code, stderr } = await run('vf-view', at('many'), '--export', at('page.html'));
    expect(code).toBe(0);
    expect(stderr).toMatch(/left out: [^\n]*led[^\n]*events\.jsonl is a link to a file that does not exist/);
    for (const [i, damage] of names.entries())
      expect([damage, stderr]).toEqual([damage, expect.stringMatching(new RegExp(`left out: [^\\n]*t${i}[^\\n]*step-000003`))]);
    expect(stderr).not.toMatch(UNREADABLE);
    const page = readFileSync(at('page.html'), 'utf8');
    for (const i of names.keys()) expect(page).toContain(`run?run=t${i}`);
  });
});
