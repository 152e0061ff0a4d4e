import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { newestTrainingRun, readTrainingRun, TrainingDirectory, trainingPaths } from '../../../src/trainer/records/training-directory.ts';

let output: string;
beforeEach(async () => {
  output = await mkdtemp(join(tmpdir(), 'vf-training-'));
});
afterEach(() => rm(output, { recursive: true }));

const create = (id: string, changes: { configDigest?: string; hour?: number } = {}) =>
  TrainingDirectory.create({
    outputDirectory: join(output, 'runs'),
    name: 'nano-grpo',
    id,
    config: 'seed = 3\n',
    configDigest: changes.configDigest ?? 'abc',
    startedAt: new Date(Date.UTC(2026, 0, 1, changes.hour ?? 0)),
  });
const attempt = (id: string) => ({ id, startedAt: new Date(0), packageVersion: '0.1.0' });

describe('TrainingDirectory', () => {
  it('makes a folder that says which run it is, and reads it back', async () => {
    {
      await using made = await create('1f2e');
      await made.beginAttempt(attempt('a1'));
      expect(made.path).toBe(join(output, 'runs', 'nano-grpo--1f2e'));
      expect(made.paths).toEqual(trainingPaths(made.path));
      expect((await readdir(made.path)).filter((name) => !name.startsWith('.lock'))).toEqual([
        'adapters',
        'checkpoints',
        'config.toml',
        'evaluations',
        'plots',
        'rollouts',
        'run.json',
      ]);
    }
    const directory = join(output, 'runs', 'nano-grpo--1f2e');
    await writeFile(join(directory, 'run.json.99.tmp'), 'half');
    await rm(trainingPaths(directory).plots, { recursive: true });
    await using again = await TrainingDirectory.open(directory);
    await again.beginAttempt(attempt('a2'));
    expect(await again.readConfig()).toBe('seed = 3\n');
    expect(again.run).toMatchObject({ run_id: 'nano-grpo--1f2e', config_digest: 'abc', started_at: '2026-01-01T00:00:00.000Z', finished_at: null });
    expect(again.run.attempts.map(({ id, package_version: version, node_version: node }) => [id, version, node])).toEqual([
      ['a1', '0.1.0', process.versions.node],
      ['a2', '0.1.0', process.versions.node],
    ]);
    expect(await readTrainingRun(directory)).toEqual(again.run);
    const names = await readdir(directory);
    expect(names).toContain('plots');
    expect(names).not.toContain('run.json.99.tmp');
  });

  it('counts as finished until it is worked on again', async () => {
    await using made = await create('1');
    await made.beginAttempt(attempt('a1'));
    await made.finish(new Date(0));
    expect((await readTrainingRun(made.path)).finished_at).toBe('1970-01-01T00:00:00.000Z');
    await made.beginAttempt(attempt('a2'));
    expect((await readTrainingRun(made.path)).finished_at).toBe('1970-01-01T00:00:00.000Z');
    await made.begin();
    expect((await readTrainingRun(made.path)).finished_at).toBeNull();
  });

  it('accepts an attempt id only once: adapters are named after it', async () => {
    await using made = await create('1');
    await made.beginAttempt(attempt('a1'));
    await expect(made.beginAttempt(attempt('a1'))).rejects.toThrow(/already has an attempt "a1"/);
    expect((await readTrainingRun(made.path)).attempts).toHaveLength(1);
  });

  it('replaces the configuration and its digest once the run goes on', async () => {
    await using made = await create('1');
    const onFile = async () => [await readFile(made.paths.config, 'utf8'), (await readTrainingRun(made.path)).config_digest];
    const before = await onFile();
    made.changeConfig({ name: 'other', config: 'seed = 3\nsteps = 9\n', configDigest: 'def' });
    expect(await onFile()).toEqual(before);
    expect(made.run.name).toBe('nano-grpo');
    expect(await made.readConfig()).toBe('seed = 3\nsteps = 9\n');
    await made.begin();
    expect([await made.readConfig(), made.run.config_digest]).toEqual(['seed = 3\nsteps = 9\n', 'def']);
    expect(await readFile(made.paths.config, 'utf8')).toBe('seed = 3\nsteps = 9\n');
    expect((await readTrainingRun(made.path)).name).toBe('other');
  });

  it.each([
    [
      '# heading\nname = "nano-grpo"  # default\nsteps = 9\n[roles]\nname = "judge"\n',
      '# heading\nname = "a \\"$&\\" b"\nsteps = 9\n[roles]\nname = "judge"\n',
    ],
    ['steps = 9\n[roles]\nname = "judge"\n', 'name = "a \\"$&\\" b"\nsteps = 9\n[roles]\nname = "judge"\n'],
  ])('gives a run that has ended another name in both of its files', async (config, renamed) => {
    await using made = await create('1');
    made.changeConfig({ name: 'nano-grpo', config, configDigest: 'def' });
    await made.begin();
    await made.finish(new Date(5));
    await made.rename('a "$&" b');
    expect(await readFile(made.paths.config, 'utf8')).toBe(renamed);
    expect(await readTrainingRun(made.path)).toMatchObject({ name: 'a "$&" b', run_id: 'nano-grpo--1', finished_at: new Date(5).toISOString() });
  });

  it('has one writer at a time', async () => {
    const made = await create('1');
    await expect(TrainingDirectory.open(made.path)).rejects.toThrow(/This process is already writing a run/);
    await made[Symbol.asyncDispose]();
    await using again = await TrainingDirectory.open(made.path);
    expect(again.run).toEqual(made.run);
  });

  it('is free again where it could not be opened', async () => {
    const made = await create('1');
    await made[Symbol.asyncDispose]();
    await rm(made.paths.plots, { recursive: true });
    await writeFile(made.paths.plots, 'a file in its place');
    await expect(TrainingDirectory.open(made.path)).rejects.toThrow(/Could not write .*EEXIST/);
    await rm(made.paths.plots);
    await using again = await TrainingDirectory.open(made.path);
    expect(again.run).toEqual(made.run);
  });

  it('refuses a folder that already exists, and leaves it as it is', async () => {
    const folder = join(output, 'runs', 'nano-grpo--1');
    await mkdir(folder, { recursive: true });
    await expect(create('1')).rejects.toThrow(ConfigError);
    await expect(create('1')).rejects.toThrow(/it exists: resume it with -R, or give the run another name/);
    expect(await readdir(folder)).toEqual([]);
  });

  it('is removed while nothing was sampled, and stays from the first rollout or line of a server on', async () => {
    const files: [id: string, file: string | null][] = [
      ['unused', null],
      ['sampled', 'rollouts/step-000001.jsonl'],
      ['evaluated', 'evaluations/step-000000.jsonl'],
      ['trained', 'checkpoints/step-000010'],
      ['served', 'policy.log'],
    ];
    for (const [id, file] of files) {
      await using made = await create(id);
      if (file !== null) await writeFile(join(made.path, file), '');
      await made.removeUnused();
      // The folders above go too, unless another run is in them.
      expect(existsSync(join(output, 'runs'))).toBe(file !== null);
    }
    expect((await readdir(join(output, 'runs'))).toSorted()).toEqual([
      'nano-grpo--evaluated',
      'nano-grpo--sampled',
      'nano-grpo--served',
      'nano-grpo--trained',
    ]);
  });

  it('says what is not a run, and what cannot be read', async () => {
    await expect(TrainingDirectory.open(join(output, 'none'))).rejects.toThrow(/The folder .*none does not exist/);
    await writeFile(join(output, 'run.json'), '{"schema_version":2}');
    await expect(TrainingDirectory.open(output)).rejects.toThrow(/run\.json is not the record of a training run:/);
    expect(await readdir(output)).toEqual(['run.json']);
  });
});

describe('newestTrainingRun', () => {
  it('finds the run that was started last among those that match', async () => {
    for (const [id, configDigest, hour] of [
      ['z', 'abc', 1],
      ['a', 'abc', 3],
      ['m', 'other', 5],
      ['k', 'abc', 2],
    ] as const) {
      await (await create(id, { configDigest, hour }))[Symbol.asyncDispose]();
    }
    const runs = join(output, 'runs');
    await mkdir(join(runs, 'no-run'));
    await writeFile(join(runs, 'file'), '');
    expect(await newestTrainingRun(runs, (run) => run.config_digest === 'abc')).toBe(join(runs, 'nano-grpo--a'));
    expect(await newestTrainingRun(runs, (_run, directory) => directory.endsWith('--k'))).toBe(join(runs, 'nano-grpo--k'));
    expect(await newestTrainingRun(runs, () => false)).toBeNull();
    expect(await newestTrainingRun(join(output, 'missing'), () => true)).toBeNull();
  });
});
