/** Runs of which a file is damaged or leads elsewhere: the page of all others is written, and says what it lacks. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { FileSource } from '../../src/viewing/file-source.ts';
import { runInProcess } from '../cli/in-process.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { writeEvaluation, writeTraining } from '../viewing/written-runs.ts';

const tokenizers = { given: null, hashOf: () => 'none' };

describe('vf-view --export', () => {
  it.each<[string, string, (path: string) => void]>([
    ['bytes that are not gzip', 'rollouts/step-000003.jsonl.gz', (path) => writeFileSync(path, 'garbage')],
    ['a link out of the run', 'rollouts/step-000003.jsonl', (path) => symlinkSync('/etc/hostname', path)],
    ['a pipe', 'rollouts/step-000003.jsonl', (path) => spawnSync('mkfifo', [path])],
    ['a folder', 'rollouts/step-000003.jsonl', (path) => mkdirSync(path)],
    ['a link in place of the events', 'events.jsonl', (path) => symlinkSync('/etc/hostname', path)],
    ['a pipe in place of the events', 'events.jsonl', (path) => spawnSync('mkfifo', [path])],
    ['a folder in place of the metrics', 'metrics.jsonl', (path) => mkdirSync(path)],
    ['bytes in place of an evaluation', 'evaluations/step-000099.jsonl.gz', (path) => writeFileSync(path, 'garbage')],
  ])('leaves out what %s costs, and names the file', async (_, name, damage) => {
    using folder = new TemporaryFolder();
    writeEvaluation(join(folder.path, 'runs/good'), [{ group: 'a' }]);
    const directory = writeTraining(join(folder.path, 'runs/bad'));
    rmSync(join(directory, name), { force: true });
    damage(join(directory, name));
    const { code, stderr } = await runInProcess('vf-view', ['runs', '--export', 'all.html'], { cwd: folder.path, env: {} });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toContain('2 runs in');
    const [, file] = /^(?:.*\/)?([^/]+)$/.exec(name)!;
    expect(stderr).toMatch(new RegExp(`left out: .*bad.*${file!.replaceAll('.', '\\.')}`));
    const page = readFileSync(join(folder.path, 'all.html'), 'utf8');
    expect(page).toContain('run?run=good');
    // The page is for others: it does not say where the runs lie on this machine.
    expect(page.includes(folder.path)).toBe(false);
  });
});

/** Of an evaluation of the rollouts a, b and c: a damage, and the sentence about it. */
const DAMAGED: Readonly<Record<string, readonly [file: string, damage: (text: string) => string | Buffer, said: string]>> = {
  infinite: ['results.jsonl', (text) => text.replace('"reward":1,', '"reward":1e999,'), 'in line 1, reward is 1e999 where a finite number belongs'],
  worded: ['results.jsonl', (text) => text.replace('"reward":1,', '"reward":"high",'), 'in line 1, reward is "high" where a finite number belongs'],
  listed: ['results.jsonl', (text) => text.replace('{"em":1}', '[1]'), 'in line 1, metrics is [1] where an object belongs'],
  immeasurable: [
    'results.jsonl',
    (text) => text.replace('{"em":1}', '{"em":1e999}'),
    'in line 1, metrics.em is too large a number where a finite number belongs',
  ],
  broken: ['results.jsonl', (text) => `\u0000\n${text}junk\n`, 'line 1 is no JSON object, so it is left out; 1 further line is damaged too.'],
  open: ['results.jsonl', (text) => text.trimEnd(), 'line 3, the last, lacks its line feed, so it is left out.'],
  cut: ['tokens.jsonl', (text) => text.slice(0, -30), 'line 3, the last, is cut off, so it is left out.'],
  joined: ['tokens.jsonl', (text) => `${text.slice(0, 30)}${text.slice(text.indexOf('\n') + 1)}`, 'line 1 is no JSON object, so it is left out.'],
  spelled: ['tokens.jsonl', (text) => text.replace('[1,2]', '"12"'), 'in line 1, token_ids is "12" where a list belongs'],
  endless: [
    'tokens.jsonl',
    (text) => text.replace('[1,2]', '[1,1e999]'),
    'the line of rollout a/0 has no token_ids, loss_mask and logprobs of one length.',
  ],
  seven: ['metadata.json', (text) => text.replace('{', '{"config":7,'), 'config is 7 where an object belongs'],
  half: ['metadata.json', (text) => text.slice(0, 50), 'it is not valid JSON'],
  bare: ['metadata.json', () => '[1]', 'it holds a list where an object belongs'],
};
const WHOLE: Readonly<Record<string, readonly [file: string, change: (text: string) => string]>> = {
  marked: ['results.jsonl', (text) => `\ufeff${text}`],
  'marked-settings': ['metadata.json', (text) => `\ufeff${text}`],
  returned: ['results.jsonl', (text) => text.replaceAll('\n', '\r\n')],
};
/** Of a training. */
const DAMAGED_TRAININGS: typeof DAMAGED = {
  lost: [
    'metrics.jsonl',
    (text) => text.replace('"loss":1}', '"loss":1e999}'),
    'in line 2, loss is too large a number where a finite number belongs',
  ],
  ended: ['metrics.jsonl', (text) => text.slice(0, -20), 'line 4, the last, is cut off, so it is left out.'],
  stepped: [
    'rollouts/step-000001.jsonl',
    (text) => text.replace('"reward":0,', '"reward":"0",'),
    'in line 1, reward is "0" where a finite number belongs',
  ],
  halved: ['config.toml', (text) => text.slice(0, 30), 'config.toml is not valid TOML'],
  attempted: ['run.json', (text) => text.replace('"attempts":[]', '"attempts":7'), 'attempts is 7 where a list belongs'],
};

function tokensLine(group: string): string {
  return `${JSON.stringify({ rollout_id: `${group}/0`, token_ids: [1, 2], loss_mask: [0, 1], logprobs: [null, -1], prompt_length: 1, segments: [] })}\n`;
}

function writtenRun(directory: string, isTraining: boolean): string {
  if (isTraining) return writeTraining(directory);
  const rows = ['a', 'b', 'c'].map((group) => ({ group }));
  writeEvaluation(directory, rows, { policy: { kind: 'tokens', name: 'n', tokenizer_hash: null } });
  writeFileSync(join(directory, 'tokens.jsonl'), rows.map(({ group }) => tokensLine(group)).join(''));
  return directory;
}

describe('vf-view', () => {
  it('names every damaged file of every run, the line and what is wrong with it, in its export, its list and the page of the run', async () => {
    using folder = new TemporaryFolder();
    const runs = join(folder.path, 'runs');
    const change = (name: string, [file, damage]: readonly [string, (text: string) => string | Buffer, string?], isTraining: boolean) => {
      const path = join(writtenRun(join(runs, name), isTraining), file);
      writeFileSync(path, damage(readFileSync(path, 'utf8')));
    };
    for (const [name, damaged] of Object.entries(DAMAGED)) change(name, damaged, false);
    for (const [name, changed] of Object.entries(WHOLE)) change(name, changed, false);
    for (const [name, damaged] of Object.entries(DAMAGED_TRAININGS)) change(name, damaged, true);
    const evaluation = writtenRun(join(runs, 'folded'), false);
    rmSync(join(evaluation, 'results.jsonl'));
    mkdirSync(join(evaluation, 'results.jsonl'));
    rmSync(join(writtenRun(join(runs, 'gone'), false), 'results.jsonl'));
    rmSync(join(writtenRun(join(runs, 'fileless'), true), 'rollouts'), { recursive: true });
    writeFileSync(join(runs, 'fileless/rollouts'), '');
    const { code, stderr } = await runInProcess('vf-view', ['runs', '--export', 'all.html'], { cwd: folder.path, env: {} });
    expect(code).toBe(0);
    const said = (name: string) => stderr.split('\n').filter((line) => line.includes(`part of ${name}`));
    for (const [name, [file, , text]] of Object.entries({ ...DAMAGED, ...DAMAGED_TRAININGS }))
      expect([name, said(name).filter((line) => line.includes(text) && line.includes(file)), stderr]).toMatchObject([
        name,
        [expect.anything()],
        stderr,
      ]);
    for (const name of Object.keys(WHOLE)) expect(said(name)).toEqual([]);
    const source = new FileSource({ root: runs, label: 'runs', tokenizers });
    const listed = new Map((await source.runs()).runs.map(({ id, problems }) => [id, problems]));
    for (const [id, problem] of [
      ['folded', 'results.jsonl is a folder, and not a file of the run. Restore the file.'],
      ['gone', 'results.jsonl is missing. Restore the file.'],
      ['worded', expect.stringContaining('reward is "high"')],
      ['lost', expect.stringContaining('loss is too large')],
    ] as const)
      expect([id, listed.get(id)]).toEqual([id, [problem]]);
    expect((await source.run('stepped')).run.problems).toEqual([expect.stringContaining('rollouts/step-000001.jsonl is damaged: in line 1')]);
    expect((await source.run('fileless')).run.problems).toEqual(['rollouts is not a folder. Restore the folder.']);
  });
});

describe('FileSource', () => {
  let folder: TemporaryFolder;
  beforeEach(() => {
    folder = new TemporaryFolder();
    return () => folder[Symbol.dispose]();
  });

  it('shows a training run of which the events and an evaluation are damaged, with the problem', async () => {
    const directory = writeTraining(join(folder.path, 'bad'));
    rmSync(join(directory, 'events.jsonl'), { force: true });
    symlinkSync('/etc/hostname', join(directory, 'events.jsonl'));
    writeFileSync(join(directory, 'evaluations/step-000099.jsonl.gz'), 'garbage');
    const detail = await new FileSource({ root: folder.path, label: 'runs', tokenizers }).run('bad');
    expect(detail.run.problems).toEqual([
      expect.stringMatching(/^events\.jsonl is a link that leads out of the run's folder/),
      expect.stringMatching(/^evaluations\/step-000099\.jsonl\.gz is damaged/),
    ]);
    expect(detail.kind === 'training' && detail.held_out.length).toBeGreaterThan(0);
  });

  it('reads nothing of a run whose folder was replaced by a link to one elsewhere', async () => {
    writeEvaluation(join(folder.path, 'runs/own'), [{ group: 'a' }]);
    const secret = writeEvaluation(join(folder.path, 'elsewhere/secret'), [{ group: 'a' }]);
    expect(existsSync(join(secret, 'results.jsonl'))).toBe(true);
    const source = new FileSource({ root: join(folder.path, 'runs'), label: 'runs', tokenizers });
    await source.runs();
    renameSync(join(folder.path, 'runs/own'), join(folder.path, 'moved'));
    symlinkSync(secret, join(folder.path, 'runs/own'));
    await expect(source.rollouts({ run: 'own', set: 'results' })).rejects.toThrow(/The folder of the run is a link now/);
    expect((await source.runs()).runs).toEqual([]);
  });
});
