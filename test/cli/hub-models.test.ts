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

  it('a dry run asks the hub for nothing: it says what the run would download, and measures the prompts of a model that is in the cache', async () => {
    hub.add('models/lab/nano', filesOf(NANO));
    const dry = (variables = {}) => folder.run([...words('lab/nano'), '--dry-run'], { HF_ENDPOINT: hub.url, ...variables });
    const { code, stdout, stderr } = await dry();
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('downloading') });
    const said = stdout.replaceAll(/\n +/g, ' ');
    expect(said).toMatch(/^policy +in this process, which downloads it from the hub, model lab\/nano$/m);
    expect(said).toMatch(/^warning +model .*The hub was not asked: the run downloads the model from there at its start/m);
    expect(said).toMatch(/^skipped +prompts +not compared with the window: lab\/nano is not on this machine$/m);
    expect(await dry({ HF_HUB_OFFLINE: '1' })).toMatchObject({ code: 2, stdout: expect.stringMatching(/^missing +model /m) });
    expect(hub.requests).toEqual([]);
    expect((await vfEval('lab/nano')).code).toBe(0);
    const asked = hub.requests.length;
    const held = await dry();
    expect(held).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ok +prompts +the longest of 1 evaluation row/m) });
    expect(held.stdout).not.toMatch(/^\w+ +model /m);
    expect(hub.requests).toHaveLength(asked);
  });

  it('a dry run names the base that an adapter of the cache lacks', async () => {
    const adapter = { 'adapter_config.json': JSON.stringify({ base_model_name_or_path: 'lab/base' }), 'adapter_model.safetensors': 'x' };
    const commit = 'a'.repeat(40);
    const snapshot = join('hub/hub/models--lab--lora');
    folder.file(join(snapshot, 'refs/main'), commit);
    for (const [name, text] of Object.entries(adapter)) folder.file(join(snapshot, 'snapshots', commit, name), text);
    const { code, stdout } = await folder.run([...words('lab/lora'), '--dry-run'], { HF_ENDPOINT: hub.url, HF_HOME: join(folder.path, 'hub') });
    expect({ code, stdout: stdout.replaceAll(/\n +/g, ' ') }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^warning +model +lab\/base is neither a folder .* the run downloads the model from there/m),
    });
    expect(hub.requests).toEqual([]);
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
