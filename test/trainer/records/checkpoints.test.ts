import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CancelledError, GradientError, TrainingError } from '../../../src/core/errors.ts';
import { Checkpoints } from '../../../src/trainer/records/checkpoints.ts';
import { killAfter, startStorage, STORAGE_RUN } from '../storage-process.ts';

let directory: string;
let notes: string[];
let checkpoints: Checkpoints;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-checkpoints-'));
  notes = [];
  checkpoints = await opened();
});
afterEach(() => rm(directory, { recursive: true }));

const opened = () => Checkpoints.open(directory, { onDamage: (note) => notes.push(note) });
const content = (step: number) => ({ step, version: step + 1, model: `policy-v${step}`, counters: { rows: step * 8, σ: -0.25 } });
const names = async () => (await readdir(directory)).toSorted();

/** What a backend leaves: two folders that it makes itself, one with a folder in it. */
async function write(folder: string): Promise<void> {
  for (const path of ['state', 'state/shards', 'adapter']) await mkdir(join(folder, path));
  await writeFile(join(folder, 'state', 'shards', 'moments.bin'), Buffer.alloc(3 << 20, 5));
  await writeFile(join(folder, 'state', 'empty'), '');
  await writeFile(join(folder, 'adapter', 'adapter_config.json'), '{}');
}
const save = (step: number) => checkpoints.save(content(step), write);

describe('Checkpoints', () => {
  it('has none at first, then the newest that was saved, with everything that was put in', async () => {
    expect(await checkpoints.latest()).toBeNull();
    await save(9);
    const saved = await save(10);
    expect(saved).toEqual({
      ...content(10),
      directory: join(directory, 'step-000010'),
      stateDirectory: join(directory, 'step-000010', 'state'),
      adapterDirectory: join(directory, 'step-000010', 'adapter'),
    });
    expect(await (await opened()).latest()).toEqual(saved);
    expect((await readFile(join(saved.stateDirectory, 'shards', 'moments.bin'))).equals(Buffer.alloc(3 << 20, 5))).toBe(true);
    expect(notes).toEqual([]);
  });

  it('orders steps as numbers', async () => {
    for (const step of [999_999, 1_000_000, 5]) await save(step);
    expect((await checkpoints.latest())!.step).toBe(1_000_000);
  });

  it('keeps the newest ones and names the oldest step that is left', async () => {
    for (const step of [10, 20, 30]) await save(step);
    expect(await checkpoints.prune(0)).toBe(10);
    expect(await checkpoints.prune(2)).toBe(20);
    expect(await names()).toEqual(['step-000020', 'step-000030']);
    await rm(directory, { recursive: true });
    expect(await checkpoints.prune(2)).toBeNull();
    await mkdir(directory);
  });

  it('replaces the checkpoint of a step that was trained again', async () => {
    await save(10);
    const second = await checkpoints.save({ ...content(10), version: 77 }, write);
    const third = await checkpoints.save({ ...content(10), version: 78 }, write);
    expect(await names()).toEqual(['step-000010.3']);
    expect([second.version, third.version, (await checkpoints.latest())!.version]).toEqual([77, 78, 78]);
  });

  it('clears away what a killed process left when it is opened for writing, and not when it is read', async () => {
    await mkdir(join(directory, 'step-000020.4711.tmp', 'state'), { recursive: true });
    expect(await new Checkpoints(directory).latest()).toBeNull();
    expect(await names()).toEqual(['step-000020.4711.tmp']);
    await opened();
    expect(await names()).toEqual([]);
  });

  it('refuses counters that JSON cannot hold', async () => {
    await expect(checkpoints.save({ ...content(1), counters: { kl: NaN } }, write)).rejects.toThrow(TrainingError);
    expect(await names()).toEqual([]);
  });
});

describe('a backend that fails while it saves', () => {
  it('leaves the earlier checkpoints and nothing else', async () => {
    await save(10);
    const failing = async (folder: string) => {
      await write(folder);
      throw new GradientError('Expected to save, got a pipe that broke', { code: 'internal' });
    };
    await expect(checkpoints.save(content(20), failing)).rejects.toMatchObject({
      name: 'ResultsError',
      message: expect.stringMatching(/step-000020: GradientError: .*pipe that broke\. Earlier checkpoints are kept/) as string,
    });
    expect(await names()).toEqual(['step-000010']);
    expect((await checkpoints.latest())!.step).toBe(10);
  });

  it('says that the disk is full, even when only the backend says so', async () => {
    const full = () => Promise.reject(new GradientError('I/O error: No space left on device (os error 28)', { code: 'internal' }));
    await expect(checkpoints.save(content(20), full)).rejects.toThrow(/the disk is full; free some space/);
  });

  it.each([new GradientError('the worker is gone', { code: 'lost' }), new CancelledError('stopped')])(
    'passes on what the run must know: %s',
    async (error) => {
      const failing = async () => {
        throw error;
      };
      await expect(checkpoints.save(content(20), failing)).rejects.toBe(error);
      expect(await names()).toEqual([]);
    },
  );
});

describe('a damaged checkpoint', () => {
  const moments = (name: string) => join(directory, name, 'state', 'shards', 'moments.bin');
  const manifest = (name: string) => join(directory, name, 'checkpoint.json');
  const flip = async (path: string, at: number) => {
    const bytes = await readFile(path);
    bytes[at]! ^= 1;
    await writeFile(path, bytes);
  };
  it.each<[string, (name: string) => Promise<unknown>, RegExp]>([
    ['a file that is missing', (name) => rm(moments(name)), /: state\/shards\/moments\.bin is missing$/],
    ['a file that was cut', (name) => truncate(moments(name), 100), /moments\.bin has 100 bytes instead of 3,145,728/],
    ['a file that grew', (name) => appendFile(moments(name), 'x'), /bytes instead of/],
    ['one bit of a file', (name) => flip(moments(name), 1 << 20), /moments\.bin changed after it was written/],
    ['no manifest', (name) => rm(manifest(name)), /: checkpoint\.json is missing$/],
    ['half a manifest', (name) => truncate(manifest(name), 50), /not JSON/],
    ['a manifest of another kind', (name) => writeFile(manifest(name), '{}'), /must have the key "schema_version"/],
    [
      'a manifest that was edited',
      async (name) => writeFile(manifest(name), (await readFile(manifest(name), 'utf8')).replace('"rows": 160', '"rows": 161')),
      /changed after it was written/,
    ],
    [
      'a file in its place',
      (name) => rename(join(directory, name), join(directory, 'x')).then(() => writeFile(join(directory, name), '')),
      /: checkpoint\.json cannot be read: not a directory \(ENOTDIR\)$/,
    ],
  ])('is skipped with a note, and the one before is used: %s', async (_name, damage, problem) => {
    await save(10);
    await save(20);
    await damage('step-000020');
    expect((await checkpoints.latest())!.step).toBe(10);
    expect(notes).toEqual([expect.stringMatching(problem) as string]);
    expect(notes[0]).toContain('step-000020');
  });

  it('is neither counted as kept nor in the way of its successor', async () => {
    await save(10);
    await save(20);
    await truncate(moments('step-000020'), 0);
    expect((await checkpoints.latest())!.step).toBe(10);
    await save(15);
    expect(await checkpoints.prune(2)).toBe(10);
    expect(await names()).toEqual(['step-000010', 'step-000015']);
  });

  it('stops the run when no whole one is left: a run never starts over by itself', async () => {
    await save(10);
    await rm(manifest('step-000010'));
    await expect(checkpoints.latest()).rejects.toThrow(/The only checkpoint in .* is damaged\. Restore one .*remove it: -R then repeats the steps/);
  });
});

describe('a process killed while it saves a checkpoint', () => {
  /** The child prints 4 lines for step 10, "saved 10", two lines for each piece of step 20, "saved 20". */
  async function killed(name: string, pieces: number, lines: number): Promise<{ step: number; hasSaid: boolean; names: string[] }> {
    const folder = join(directory, name);
    const said = await killAfter(startStorage('checkpoint', folder, pieces), lines);
    expect(said).toContain('saved 10');
    const { step } = (await (await Checkpoints.open(folder, { onDamage: (note) => notes.push(note) })).latest())!;
    return { step, hasSaid: said.includes('saved 20'), names: (await readdir(folder)).toSorted() };
  }

  it('leaves the one before it while the backend writes', async () => {
    expect(await killed('early', 300, 8)).toEqual({ step: 10, hasSaid: false, names: ['step-000010'] });
    expect(notes).toEqual([]);
  });

  it('leaves the one before it or a whole new one while it is made durable', async () => {
    for (const late of await Promise.all([killed('late', 8, 21), killed('later', 8, 22)])) {
      expect(late.step).toBe(late.hasSaid ? 20 : late.step);
      expect(late.names).toEqual(late.step === 20 ? ['step-000010', 'step-000020'] : ['step-000010']);
    }
    expect(notes).toEqual([]);
  });
});

const canMount = spawnSync('unshare', ['-Urm', 'true']).status === 0;

describe.runIf(canMount)('a disk that is full during a checkpoint', () => {
  it('gives one clear error, keeps the checkpoint before it, and the next save succeeds once there is space', async () => {
    const mount = join(directory, 'small');
    const steps = [
      'set -e',
      `mkdir -p ${mount}`,
      `mount -t tmpfs -o size=1m tmpfs ${mount}`,
      `"$@" checkpoint ${mount}/checkpoints 40 > ${directory}/first.json`,
      `cp -r ${mount}/checkpoints ${directory}/left`,
      `mount -o remount,size=32m ${mount}`,
      `"$@" checkpoint ${mount}/checkpoints 40 > ${directory}/second.json`,
      `cp -r ${mount}/checkpoints ${directory}/after`,
    ];
    const child = spawn('unshare', ['-Urm', 'sh', '-c', steps.join('\n'), 'sh', process.execPath, ...STORAGE_RUN], { stdio: 'ignore' });
    await once(child, 'close');
    expect(JSON.parse(await readFile(join(directory, 'first.json'), 'utf8'))).toEqual({
      name: 'ResultsError',
      message: expect.stringMatching(
        /checkpoints\/step-000020: the disk is full; free some space, or keep fewer .* Earlier checkpoints are kept/,
      ) as string,
    });
    expect(await readdir(join(directory, 'left'))).toEqual(['step-000010']);
    expect((await new Checkpoints(join(directory, 'left')).latest())!.step).toBe(10);
    expect(await readFile(join(directory, 'second.json'), 'utf8')).toBe('');
    expect((await new Checkpoints(join(directory, 'after')).latest())!.step).toBe(20);
  });
});

describe('a checkpoint that was copied elsewhere', () => {
  it('is whole there too', async () => {
    await save(10);
    const elsewhere = join(directory, 'copy');
    await cp(join(directory, 'step-000010'), join(elsewhere, 'step-000010'), { recursive: true });
    expect((await new Checkpoints(elsewhere).latest())!.directory).toBe(join(elsewhere, 'step-000010'));
  });
});
