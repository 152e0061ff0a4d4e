import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TrainingConfigWire } from '../../../src/schemas/training-config.ts';
import { modelPath } from '../../../src/data/bundled-models.ts';
import type { ConfigDifference } from '../../../src/trainer/config/resume-config.ts';
import type { TrainingSetup } from '../../../src/sessions/training/resolve-training.ts';
import { roleInputs } from '../../../src/sessions/roles/role-inputs.ts';
import { compareInputs as compared, trainingInputs } from '../../../src/sessions/training/training-inputs.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-inputs-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

/** A run that names an adapter, rollouts, a loss and a credit with parts of their own, an environment, and files and folders in its arguments. */
function written(): TrainingConfigWire {
  const adapter = join(folder, 'adapter');
  mkdirSync(adapter);
  for (const name of ['adapter_config.json', 'adapter_model.safetensors']) file(`adapter/${name}`, name);
  file('part.ts', 'export const beta = 1;');
  for (const name of ['pages', 'index', 'parameter']) mkdirSync(join(folder, name));
  file('pages/one.png', 'picture');
  file('index/manifest.json', '{}');
  file('index/passages.jsonl', 'passages');
  file('parameter/pipeline_parameter.yaml', 'prompt:\n  template: ask.jinja\n');
  file('ask.jinja', '{{ question }}');
  file('server.ts', 'export const tools = {};');
  file('words.txt', 'words');
  const args = {
    corpus: join(folder, 'index'),
    pages: join(folder, 'pages'),
    prompts: [file('system.txt', 'Be brief.')],
    file: file('pipeline.yaml', 'servers:\n  own: ./server.ts\npipeline: [own.ask]\n'),
    // Rows are compared one by one; the run writes the next one; the others are not files.
    dataset: file('rows.jsonl', '{}'),
    output_path: file('out.txt', ''),
    data_split: 'test',
    topk: 3,
  };
  const wire = {
    environment: { id: file('environment.ts', "import 'vf-search';"), args, eval_args: { corpus: file('corpus.jsonl', '{}') } },
    model: { path: 'nano-base', initial_adapter: adapter },
    rollouts_file: file('rollouts.jsonl', '{"a":1}\n{"b":2}\n'),
    source: null,
    algorithm: {
      advantage: { use: file('credit.ts', "const words = readFileSync(new URL('./words.txt', import.meta.url));") },
      loss: { use: file('loss.ts', "import { beta } from './part.ts';\nexport const createLoss = () => beta;") },
    },
    losses: {},
  };
  return wire as unknown as TrainingConfigWire;
}

/** A bundled name, as the commands resolve it. */
const inputsOf = (wire: TrainingConfigWire) => trainingInputs(wire, modelPath(wire.model.path));

type Compared = { readonly wire: TrainingConfigWire; readonly allows: boolean; readonly allow?: string };

async function compareInputs(
  run: Parameters<typeof compared>[0],
  { wire, allows: allowsChanges, allow = 'add --allow-changes' }: Compared,
  changes: readonly ConfigDifference[] = [],
) {
  const found = await compared(run, { setup: { wire: wire as TrainingSetup['wire'], changes, allowsChanges, allow }, variables: {} });
  return { ...found, changes: found.changes.map(({ text }) => text) };
}

describe('compareInputs', () => {
  it('accepts the inputs that a run began with, rollouts that were added since, and a run of an earlier version', async () => {
    const wire = written();
    const inputs = await inputsOf(wire);
    expect(Object.entries(inputs).map(([key, files]) => [key, Object.keys(files)])).toEqual([
      ['model.path', ['tokenizer.json', 'tokenizer_config.json']],
      ['model.path (base)', ['config.json', 'model.safetensors']],
      ['model.initial_adapter', ['adapter_config.json', 'adapter_model.safetensors']],
      ['rollouts_file', ['rollouts.jsonl']],
      ['algorithm.advantage.use', ['credit.ts', 'words.txt']],
      ['algorithm.loss.use', ['loss.ts', 'part.ts']],
      ['environment.args.corpus', ['manifest.json']],
      ['environment.args.pages', ['pages/']],
      ['environment.args.prompts', ['system.txt']],
      ['environment.args.file', ['pipeline.yaml', 'server.ts', 'parameter/pipeline_parameter.yaml', 'ask.jinja']],
      ['environment.eval_args.corpus', ['corpus.jsonl']],
      ['environment.id', ['environment.ts']],
    ]);
    appendFileSync(wire.rollouts_file!, '{"c":3}\n');
    expect(await compareInputs({ inputs }, { wire, allows: false })).toEqual({ inputs, changes: [] });
    expect((await compareInputs({}, { wire, allows: false })).changes).toEqual([]);
  });

  it.each([
    ['adapter/adapter_model.safetensors', 'model.initial_adapter', 'adapter_model.safetensors'],
    ['rollouts.jsonl', 'rollouts_file', 'rollouts.jsonl'],
    ['loss.ts', 'algorithm.loss.use', 'loss.ts, part.ts'],
    ['part.ts', 'algorithm.loss.use', 'part.ts'],
    ['credit.ts', 'algorithm.advantage.use', 'credit.ts, words.txt'],
    ['words.txt', 'algorithm.advantage.use', 'words.txt'],
    ['index/manifest.json', 'environment.args.corpus', 'manifest.json'],
    ['pages/one.png', 'environment.args.pages', 'pages/'],
    ['pages/two.png', 'environment.args.pages', 'pages/'],
    ['system.txt', 'environment.args.prompts', 'system.txt'],
    ['server.ts', 'environment.args.file', 'server.ts'],
    ['ask.jinja', 'environment.args.file', 'ask.jinja'],
    ['corpus.jsonl', 'environment.eval_args.corpus', 'corpus.jsonl'],
  ])('refuses another %s by its setting and file, and continues with it where that is allowed', async (name, key, changed) => {
    const wire = written();
    const inputs = await inputsOf(wire);
    file(name, 'another');
    const text = `${key} names other contents than before: ${changed} changed`;
    const started = `A resumed run must have the inputs that it began with, but ${text}. Restore the files,`;
    await expect(compareInputs({ inputs }, { wire, allows: false })).rejects.toThrow(
      `${started} add --allow-changes to continue with the new ones, or start a new run.`,
    );
    await expect(compareInputs({ inputs }, { wire, allows: false, allow: 'pass allowChanges: true' })).rejects.toThrow(
      `${started} pass allowChanges: true to continue with the new ones, or start a new run.`,
    );
    const allowed = await compareInputs({ inputs }, { wire, allows: true });
    expect(allowed.changes).toEqual([text]);
    expect(await compareInputs({ inputs: allowed.inputs }, { wire, allows: false })).toMatchObject({ changes: [] });
  });

  it('refuses other weights of the base, which no flag allows, and a configuration that is more than laid out anew', async () => {
    const base = join(folder, 'base');
    cpSync(modelPath('nano-base'), base, { recursive: true });
    const wire = { ...written(), model: { path: base, initial_adapter: null } } as unknown as TrainingConfigWire;
    const inputs = await inputsOf(wire);
    file('base/config.json', JSON.stringify(JSON.parse(readFileSync(join(base, 'config.json'), 'utf8')), null, 7));
    expect((await compareInputs({ inputs }, { wire, allows: false })).changes).toEqual([]);
    const weights = readFileSync(join(base, 'model.safetensors'));
    weights.writeFloatLE(0.5, Math.floor(weights.length / 8) * 4);
    writeFileSync(join(base, 'model.safetensors'), weights);
    const text = 'model.path names other contents than before: model.safetensors changed. Restore the files, or start a new run.';
    for (const allows of [false, true]) await expect(compareInputs({ inputs }, { wire, allows })).rejects.toThrow(text);
  });

  it.each<[string, (path: string) => void]>([
    ['removed', () => {}],
    ['a folder now', (path) => mkdirSync(path)],
    ['a link to nowhere', (path) => symlinkSync(join(folder, 'nowhere'), path)],
    ['a link to itself', (path) => symlinkSync(path, path)],
  ])('refuses an input that is %s, which no flag allows', async (_, put) => {
    for (const [name, key] of [
      ['rollouts.jsonl', 'rollouts_file'],
      ['loss.ts', 'algorithm.loss.use'],
      ['system.txt', 'environment.args.prompts'],
      ['environment.ts', 'environment.id'],
    ]) {
      const wire = written();
      const inputs = await inputsOf(wire);
      const path = join(folder, name!);
      rmSync(path);
      put(path);
      await expect(compareInputs({ inputs }, { wire, allows: true })).rejects.toThrow(`the files that ${key} named are gone: ${basename(name!)}`);
      rmSync(folder, { recursive: true });
      mkdirSync(folder);
    }
  });

  it('leaves alone what a setting named that now has another value', async () => {
    const wire = written();
    const inputs = await inputsOf(wire);
    const other = { ...wire, environment: { ...wire.environment, args: {} } };
    const change: ConfigDifference = { key: 'environment.args.corpus', before: 'index', after: null, changeable: true };
    const rest = Object.fromEntries(Object.entries(inputs).filter(([key]) => !/^environment\.args\.(?!corpus)/.test(key)));
    expect((await compareInputs({ inputs: rest }, { wire: other, allows: false }, [change])).changes).toEqual([]);
  });

  it("goes on with a changed module of the environment, and says so: it may be a correction, as of the environment's rows", async () => {
    const wire = written();
    const inputs = await inputsOf(wire);
    file('environment.ts', 'export const corrected = true;');
    expect((await compareInputs({ inputs }, { wire, allows: false })).changes).toEqual([
      'environment.id names other contents than before: environment.ts changed',
    ]);
  });

  it('records nothing of what is not there, of the environments of this package, and of standard input', async () => {
    const environment = {
      id: 'search-r1',
      args: { corpus: 'nq-mini', data_split: 'test', retriever_url: 'http://127.0.0.1:8000/retrieve' },
      eval_args: {},
    };
    const wire = { ...written(), rollouts_file: '-', model: { path: 'owner/name', initial_adapter: null }, algorithm: {}, environment };
    expect(await inputsOf(wire as unknown as TrainingConfigWire)).toEqual({});
  });
});

describe('roleInputs', () => {
  it('changes with the model behind an alias and with what it is asked, and not with its server', async () => {
    const alias = (model: string, url: string, sampling: string) =>
      file('endpoints.toml', `[[endpoint]]\nendpoint_id = "judge"\nmodel = "${model}"\nurl = "${url}"\nsampling = { ${sampling} }\n`);
    const digests = (path: string) => roleInputs({ judge: { use: 'judge' }, reader: { use: 'policy' } }, path);
    const before = await digests(alias('small', 'http://127.0.0.1:1/v1', 'top_k = 1'));
    expect(Object.keys(before)).toEqual(['roles.judge.use']);
    expect(await digests(alias('small', 'http://127.0.0.1:2/v1', 'top_k = 1'))).toEqual(before);
    expect(await digests(alias('large', 'http://127.0.0.1:1/v1', 'top_k = 1'))).not.toEqual(before);
    expect(await digests(alias('small', 'http://127.0.0.1:1/v1', 'top_k = 2'))).not.toEqual(before);
  });
});
