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
    expect(detail.run.problem).toMatch(/^events\.jsonl is a link that leads out of the run's folder/);
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
