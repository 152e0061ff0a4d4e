/** vf-train with a base that is named by its id on a hub: the embedded engine trains what was downloaded once. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../../../src/data/package-root.ts';
import { type WritableHub, writableHub, WRITER } from '../../data/writable-hub.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

const NANO = join(packageRoot(), 'models/nano-base');
const WORDS = ['search-r1', '--preset', 'laptop', '-m', 'lab/tiny', '-n', '2', '-r', '2', '--steps', '1', '-o', '.', '--plain'];
const SMALL = [...WORDS, '--set', 'evaluation.examples=4', '--set', 'policy.embedded.threads=1'];

let hub: WritableHub;
let folder: TrainFolder;
beforeEach(async () => {
  hub = await writableHub();
  hub.add('models/lab/tiny', Object.fromEntries(readdirSync(NANO).map((name) => [name, readFileSync(join(NANO, name))])));
  folder = new TrainFolder();
});
afterEach(async () => {
  folder[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

const vfTrain = (words: readonly string[]) =>
  folder.runInProcess(words, { VF_BASE_URL: '', HF_ENDPOINT: hub.url, HF_TOKEN: WRITER, HF_HOME: join(folder.path, 'hub') }).ended;
const downloads = () => hub.requests.filter((request) => request.includes('/resolve/'));

describe('vf-train -m owner/name', { timeout: 120_000 }, () => {
  it('downloads the base once, trains it in this process, and names it by its id on file', async () => {
    const { code, stderr } = await vfTrain(SMALL);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toMatch(/^vf-train: downloading lab\/tiny \(\d+ files, \d+\.\d MB\) to \S+hub$/m);
    expect(stderr).toMatch(/^trains +tiny to play search-r1/m);
    const run = folder.run()!.path;
    const read = (name: string) => readFileSync(join(run, name), 'utf8');
    expect(read('config.toml')).toContain('path = "lab/tiny"');
    const adapter = 'checkpoints/step-000001/adapter';
    expect(JSON.parse(read(`${adapter}/adapter_config.json`))).toMatchObject({ base_model_name_or_path: 'lab/tiny' });
    expect(read(`${adapter}/README.md`)).toContain('base_model: lab/tiny');
    expect(JSON.parse(read('evaluations/step-000000.jsonl').split('\n')[0]!)).toMatchObject({ model: 'tiny' });
    const before = downloads().length;
    hub.availableFor = 0;
    const resumed = await vfTrain(['-R', run, '--steps', '2']);
    expect({ code: resumed.code, stderr: resumed.stderr }).toMatchObject({ code: 0, stderr: expect.not.stringContaining('downloading') });
    expect(downloads().length).toBe(before);
  });

  it('says in one line that a base is neither a folder nor on the hub, and leaves nothing behind', async () => {
    const { code, stderr } = await vfTrain([...SMALL, '-m', 'lab/none']);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^vf-train: The folder lab\/none does not exist, so it was looked for on the hub\. .*\n$/),
    });
    expect(folder.run()).toBeNull();
  });

  it('a dry run downloads nothing, and says what the run would', async () => {
    const { code, stdout } = await vfTrain([...SMALL, '--dry-run']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^model +lab\/tiny, which the run downloads from the hub$/m) });
    expect(hub.requests).toEqual([]);
  });
});
