import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bundledModels, bundledName, modelPath } from '../../../src/data/bundled-models.ts';
import { adapterBase } from '../../../src/sessions/policy/adapter-base.ts';
import { embeddedModel as embeddedModelOf } from '../../../src/sessions/policy/embedded-model.ts';
import { FLAG_NAMES } from '../../../src/cli/eval/evaluation-request.ts';
import { laptopModel, modelWorld } from '../../../src/sessions/environment/model-world.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const NANO = join(import.meta.dirname, '../../../models/nano-base');
const embeddedModel = (asked: string) => embeddedModelOf(asked, { variables: process.env, names: FLAG_NAMES });

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

function adapter(at: string, base: unknown): string {
  mkdirSync(join(folder.path, at), { recursive: true });
  folder.write(join(at, 'adapter_config.json'), JSON.stringify({ base_model_name_or_path: base }));
  return join(folder.path, at);
}

describe('embeddedModel', () => {
  it('finds a bundled model by its name', () => {
    expect(embeddedModel('nano-base')).toEqual({ directory: NANO, name: 'nano-base', adapter: null });
  });

  it('is any other directory by its last part', () => {
    const path = join(folder.path, 'other');
    cpSync(NANO, path, { recursive: true });
    expect(embeddedModel(path)).toEqual({ directory: path, name: 'other', adapter: null });
  });

  it('says how to bring an adapter here whose weights are at a training service, by its folder and by its run', () => {
    const at = 'run--03/checkpoints/step-000002/adapter';
    mkdirSync(join(folder.path, at), { recursive: true });
    folder.write(join(at, 'tinker.json'), '{}');
    folder.write('run--03/run.json', '{}');
    for (const asked of [at, 'run--03'])
      expect(() => embeddedModel(join(folder.path, asked))).toThrow(
        /are at a training service\. Bring them here with .*vf-export .*step-000002.adapter --adapter -o adapter/,
      );
  });

  it('finds the base of an adapter where its configuration says, and a bundled one by its name where that place is elsewhere', () => {
    const there = adapter('there', NANO);
    expect(embeddedModel(there)).toEqual({ directory: NANO, name: 'nano-base', adapter: { name: 'there', directory: there } });
    expect(embeddedModel(adapter('moved', '/another/machine/models/nano-base')).directory).toBe(NANO);
  });

  it('finds the base of an adapter by the record of its run, from any folder, unless the adapter names another', () => {
    const base = join(folder.path, 'elsewhere/qwen');
    cpSync(NANO, base, { recursive: true });
    const places = ['run--02/checkpoints/step-000004/adapter', 'run--02/best/adapter'].map((at) => adapter(at, '../nowhere/from/here/qwen'));
    folder.write('run--02/run.json', '{}');
    folder.write('run--02/config.toml', `[model]\npath = ${JSON.stringify(base)}  # command line\n`);
    for (const place of places) expect(embeddedModel(place)).toMatchObject({ directory: base, name: 'qwen' });
    expect(embeddedModel(adapter('run--02/adapters/v1', NANO)).directory).toBe(NANO);
    folder.write('run--02/config.toml', '[model\n');
    expect(() => embeddedModel(places[0]!)).toThrow(/names \.\.\/nowhere\/from\/here\/qwen, which does not exist\. Put the model there/);
  });

  it("finds the base of an adapter in the hub's cache, and says how to download one that is not there", () => {
    const place = adapter('published', 'org/nano');
    expect(() => adapterBase(place, { HF_HUB_CACHE: folder.path })).toThrow(/which does not exist\. Download it: hf download org\/nano, or correct/);
    const cached = join(folder.path, 'models--org--nano/snapshots', '0'.repeat(40));
    cpSync(NANO, cached, { recursive: true });
    expect(adapterBase(place, { HF_HUB_CACHE: folder.path })).toBe(cached);
  });

  it('names the adapter of a run after run and step, and takes the newest of a whole run', () => {
    adapter('run--01/checkpoints/step-000004/adapter', NANO);
    const newest = adapter('run--01/checkpoints/step-000012/adapter', NANO);
    folder.write('run--01/run.json', '{}');
    const expected = { name: 'run--01-step-000012', directory: newest };
    expect(embeddedModel(newest).adapter).toEqual(expected);
    expect(embeddedModel(join(folder.path, 'run--01')).adapter).toEqual(expected);
    expect(embeddedModel(adapter('run--01/best/adapter', NANO)).adapter?.name).toBe('run--01-best');
    expect(embeddedModel(adapter('copied/best/adapter', NANO)).adapter?.name).toBe('adapter');
  });

  it('refuses anything else in one line', () => {
    const wrong: [string, RegExp][] = [
      [join(folder.path, 'nowhere'), /The directory .*nowhere does not exist\. /],
      [adapter('lost', '/nowhere/qwen'), /names \/nowhere\/qwen, which does not exist/],
      [adapter('nameless', undefined), /does not name the base model/],
    ];
    folder.write('lost/adapter_model.safetensors', '');
    mkdirSync(join(folder.path, 'young/checkpoints'), { recursive: true });
    folder.write('young/run.json', '{}');
    mkdirSync(join(folder.path, 'broken'));
    folder.write('broken/adapter_config.json', '{');
    wrong.push(
      [join(folder.path, 'young'), /has no checkpoint yet\. Continue it: vf-train -R/],
      [join(folder.path, 'broken'), /is not a valid PEFT adapter configuration/],
    );
    for (const [path, message] of wrong) {
      expect(() => embeddedModel(path)).toThrow(ConfigError);
      expect(() => embeddedModel(path)).toThrow(message);
    }
    rmSync(join(folder.path, 'lost'), { recursive: true });
  });
});

describe('modelPath', () => {
  it('leaves paths, hub ids and unknown names as they stand', () => {
    for (const text of ['./nano-base', 'Qwen/Qwen3-4B', '/models/nano-base', 'nano-bse', 'src']) expect(modelPath(text)).toBe(text);
  });

  it('and bundledName undo each other', () => {
    expect(bundledModels()).toContain('nano-base');
    for (const name of bundledModels()) expect(bundledName(modelPath(name))).toBe(name);
    expect([folder.path, join(NANO, '..'), '/nowhere'].map(bundledName)).toEqual([null, null, null]);
  });
});

describe('modelWorld', () => {
  const world = (environmentId: string, args: object, model = NANO) => modelWorld(model, { environmentId, args: args as Record<string, unknown> });

  it('gives the bundled model questions that it can answer, unless data or another environment is named', () => {
    expect(world('search-r1', { topk: 5 })?.args).toEqual({ dataset: 'fact-world' });
    const other = { args: {}, notice: expect.stringContaining('(dataset = "fact-world"), and the arguments name other data') };
    for (const args of [{ dataset: 'nq-mini' }, { retriever_url: 'http://h' }, { engine: 'serper' }]) expect(world('search-r1', args)).toEqual(other);
    expect(world('search-r1', { dataset: 'fact-world' })).toBeNull();
    expect(world('grpo-000', { prompt: 'document' })).toMatchObject({
      args: { dataset: 'fact-world' },
      notice: expect.not.stringContaining('prompt'),
    });
    expect(world('capitals', {})).toBeNull();
    expect(world('search-r1', {}, folder.path)).toBeNull();
  });

  it("is what the environment's own laptop preset says, for the model of that preset alone", () => {
    mkdirSync(join(folder.path, 'flying/presets'), { recursive: true });
    folder.write('flying/environment.ts', 'export const loadEnvironment = () => null;');
    const args = '[environment.args]\ndataset = "air"\nheight = 3\n';
    const id = join(folder.path, 'flying');
    folder.write('flying/presets/laptop.toml', `[preset]\nsummary = "flies"\nworld = ["dataset"]\n${args}[model]\npath = "nano-base"\n`);
    expect(world(id, {})).toMatchObject({ args: { dataset: 'air' }, notice: expect.stringContaining('so dataset = "air"') });
    expect(laptopModel(id)).toBe('nano-base');
    const other = join(folder.path, 'other');
    folder.write('flying/presets/laptop.toml', `[preset]\nsummary = "flies"\nworld = ["dataset"]\n${args}[model]\npath = ${JSON.stringify(other)}\n`);
    expect(world(id, {})).toBeNull();
    cpSync(NANO, other, { recursive: true });
    expect(world(id, {}, other)).toMatchObject({ args: { dataset: 'air' }, notice: expect.stringContaining('other knows only') });
    expect(modelWorld(other, { environmentId: 'flying', args: {}, environmentsDir: folder.path })?.args).toEqual({ dataset: 'air' });
    folder.write('flying/presets/laptop.toml', `[preset]\nsummary = "flies"\nworld = ["wind"]\n${args}`);
    expect(() => world(id, {})).toThrow(/preset\.world names wind, which is not in \[environment\.args\]/);
    expect(laptopModel('capitals')).toBeNull();
  });
});
