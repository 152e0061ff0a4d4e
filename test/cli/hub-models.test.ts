/** Models and adapters by their id on a hub: downloaded once, checked before their weights, used without a network afterwards. */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/data/package-root.ts';
import { type WritableHub, writableHub, WRITER } from '../data/writable-hub.ts';
import { EvalFolder } from './vf-eval-process.ts';

const NANO = join(packageRoot(), 'models/nano-base');
const filesOf = (folder: string) => Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));

let hub: WritableHub;
let folder: EvalFolder;
beforeEach(async () => {
  hub = await writableHub();
  folder = new EvalFolder();
});
afterEach(async () => {
  folder[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

const words = (model: string) => ['capitals', '-n', '1', '-t', '1', '-p', 'embedded', '-m', model, '-A', '--plain'];
const vfEval = (model: string, variables: Readonly<Record<string, string>> = {}) => folder.run(words(model), { HF_ENDPOINT: hub.url, ...variables });
const downloads = () => hub.requests.filter((request) => request.includes('/resolve/'));

describe('vf-eval -p embedded -m owner/name', { timeout: 60_000 }, () => {
  it('downloads what the engine reads, once, and plays with it', async () => {
    hub.add('models/lab/nano', { ...filesOf(NANO), 'pytorch_model.bin': 'pickle', 'onnx/model.onnx': 'x' });
    hub.brokenDownloads = 1;
    const first = await vfEval('lab/nano');
    expect({ code: first.code, stderr: first.stderr }).toMatchObject({ code: 0 });
    expect(first.stderr).toMatch(/^vf-eval: downloading lab\/nano \(\d+ files, \d+\.\d MB\) to \S+huggingface\/hub$/m);
    expect(first.stdout).toMatch(/^policy +nano in this process/m);
    expect(downloads().filter((request) => /pickle|\.bin|onnx/.test(request))).toEqual([]);
    const before = downloads().length;
    const again = await vfEval('lab/nano');
    expect([again.code, again.stderr.includes('downloading'), downloads().length]).toEqual([0, false, before]);
    hub.availableFor = 0;
    expect((await vfEval('lab/nano', { HF_HUB_OFFLINE: '1' })).code).toBe(0);
  });

  it('names the folder of the cache that broken weights are to be deleted from, and downloads them again after that', async () => {
    const whole = filesOf(NANO);
    const model = hub.add('models/lab/nano', { ...whole, 'model.safetensors': whole['model.safetensors']!.subarray(0, 5000) });
    const broken = await vfEval('lab/nano');
    expect(broken.code).toBe(2);
    const [, cache] = /; delete the folder (\S+models--lab--nano) and download the model again$/m.exec(broken.stderr) ?? [];
    expect(broken.stderr).toMatch(/is not a valid safetensors file/);
    model.files.set('model.safetensors', whole['model.safetensors']!);
    rmSync(cache!, { recursive: true });
    expect((await vfEval('lab/nano')).code).toBe(0);
  });

  it('refuses a model that the engine does not compute, before its weights are downloaded', async () => {
    const files = filesOf(NANO);
    const config = { ...(JSON.parse(files['config.json']!.toString('utf8')) as object), model_type: 'llama' };
    hub.add('models/lab/other', { ...files, 'config.json': JSON.stringify(config) });
    const { code, stdout, stderr } = await vfEval('lab/other');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/model_type/);
    expect(downloads().filter((request) => request.includes('safetensors'))).toEqual([]);
  });

  it.each([
    ['a model that the hub does not have', 'lab/none', {}, /\(401\): it does not exist, or is private or gated/],
    ['a model without safetensors', 'lab/pickle', {}, /has no weights in safetensors/],
    ['a model that was never downloaded, without a network', 'lab/nano', { HF_HUB_OFFLINE: '1' }, /is not in the cache, and HF_HUB_OFFLINE/],
  ])('%s is one line', async (_, model, variables, message) => {
    hub.add('models/lab/pickle', { 'config.json': '{}', 'pytorch_model.bin': 'x' });
    const { code, stderr } = await vfEval(model, variables);
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(stderr).toMatch(message);
  });

  it('a slip in the name of a folder is named next to the answer of the hub, and a path is never looked for there', async () => {
    mkdirSync(join(folder.path, 'models/searcher'), { recursive: true });
    const slip = await vfEval('models/seacher');
    expect({ code: slip.code, lines: slip.stderr.trim().split('\n').length }).toEqual({ code: 2, lines: 1 });
    expect(slip.stderr).toMatch(
      /^vf-eval: The folder models\/seacher does not exist \(did you mean models\/searcher\?\), so it was looked for on the hub\. Could not fetch .*\(401\)/,
    );
    const asked = hub.requests.length;
    for (const path of ['./models/seacher', '../x', '~/models/x', '/models/x', 'models/a/b', 'seacher/', 'seacher']) {
      const { code, stderr } = await vfEval(path);
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`The directory ${path} does not exist.`) });
    }
    expect(hub.requests.length).toBe(asked);
  });

  it('a private model needs the token, which no output shows', async () => {
    hub.add('models/lab/secret', filesOf(NANO), true);
    expect((await vfEval('lab/secret')).code).toBe(2);
    const { code, stdout, stderr } = await vfEval('lab/secret', { HF_TOKEN: WRITER });
    expect(code).toBe(0);
    expect(stdout + stderr).not.toContain(WRITER);
  });
});
