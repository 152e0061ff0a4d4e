import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseTrain } from '../../cli/train/parse-train.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';
import { publishedConfig } from '../../../src/reports/training/published-config.ts';
import { renderConfig } from '../../../src/reports/training/render-config.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

async function read(given: readonly string[]) {
  const parsed = parseTrain(given);
  return resolveTraining(parsed, { variables: {}, environmentFile: '/nonexistent' });
}

async function published(given: readonly string[]) {
  return publishedConfig((await read(given)).wire, String);
}

const set = (...settings: readonly string[]) => settings.flatMap((text) => ['--set', text]);
const LAPTOP = ['search-r1', '--preset', 'laptop'];
const MODEL = ['-m', 'Qwen/Qwen2.5-3B'];

const RUNS: [what: string, given: string[], flags?: string[]][] = [
  ['the laptop preset', LAPTOP],
  [
    'the laptop preset with flags and settings',
    [
      ...LAPTOP,
      ...'--steps 7 -n 4 -r 6 -c 9 --lr 5e-4 --rank 4 --seed 3 --async --name mine -o /tmp/elsewhere'.split(' '),
      '-a',
      `{"topk": 2, "note": "it's \\"mine\\""}`,
      '--eval-args',
      '{"max_turns": 3}',
      ...set('rollouts.timeout_s=none', 'lora.targets=["q_proj", "v_proj"]', 'evaluation.examples=-1', 'optimizer.warmup_ratio=0.5'),
      ...set('policy.embedded.cache_tokens=4096', 'backend.threads=1', 'algorithm.kl.coefficient=1e-3', 'checkpoint.keep_rollouts=true'),
    ],
  ],
  ["another environment than the preset's", ['./environments/my-own', '--preset', 'laptop', '-a', '{"rows": 5}']],
  ["Search-R1's own settings, fewer steps", ['search-r1', '--preset', 'search-r1-grpo', '--embedded', ...MODEL, '--steps', '40', '-n', '8']],
  ['a preset whose environment sets the size of a group', ['grpo-000', '--preset', 'laptop']],
  ['rollouts of this process for PyTorch', ['search-r1', '-m', 'nano-base', ...set('policy.embedded.threads=2'), '--python', '/venv/bin/python']],
  ['a vLLM that it starts', ['search-r1', ...MODEL, '--launch', '--steps', '40', '-r', '4']],
  ['a running server', ['search-r1', ...MODEL, '-b', 'http://10.0.0.7:8000/v1', '-k', 'KEY', '--steps', '40'], ['--launch']],
  ['supervised steps alone', ['search-r1', '-m', 'nano-base', '--sft', 'good.jsonl', '--steps', '5', ...set('backend.kind=embedded')]],
];

describe('publishedConfig', () => {
  it.each(RUNS)('is a file that vf-train takes for the same settings: %s', async (_, given, flags = []) => {
    const parsed = parseTrain(given);
    const { wire: run } = await resolveTraining(parsed, { variables: { KEY: 'secret' }, environmentFile: '/nonexistent' });
    const { wire: again } = await read([folder.write('config.toml', renderConfig({ wire: publishedConfig(run, String) })), ...flags]);
    expect(again).toMatchObject({ ...run, output_dir: 'outputs', policy: expect.anything(), backend: { ...run.backend, python: 'python3' } });
    const launched = { base_url: null, api_key_var: null, launch: { python: 'python3' } };
    expect(again.policy).toMatchObject(flags.length === 0 ? run.policy : launched);
  });

  it('leaves the secrets of a table out', async () => {
    const args = JSON.stringify({ judge: { api_key: 'abc' }, url: 'http://reader:pass@host/retrieve' });
    const text = renderConfig({ wire: await published(['search-r1', ...MODEL, '--launch', '-a', args]) });
    expect(text).toContain('judge = { api_key = "***" }, url = "http://***@host/retrieve"');
  });

  it('names no path of this machine: a cached model by its hub id, files by what is valid elsewhere', async () => {
    const cached = `/home/somebody/.cache/huggingface/hub/models--Qwen--Qwen2.5-3B/snapshots/${'0'.repeat(40)}`;
    expect((await published(['search-r1', '--launch', '-m', cached])).model.path).toBe('Qwen/Qwen2.5-3B');
    expect(JSON.stringify(await published(['search-r1', '--launch', '-m', folder.path]))).not.toContain(folder.path);
    const corpus = folder.write('corpus.jsonl', '');
    const near = join(process.cwd(), 'package.json');
    const { environment } = await published(['search-r1', '--launch', ...MODEL, '-a', JSON.stringify({ corpus, near, route: '/retrieve' })]);
    expect(environment.args).toEqual({ corpus: 'corpus.jsonl', near: 'package.json', route: '/retrieve' });
  });
});

describe('a run of the embedded engine', () => {
  it('has the same settings on a GPU machine, with vLLM and PyTorch, from its own config.toml', async () => {
    const { wire: run, origin } = await read([...LAPTOP, '--steps', '3', '--lr', '0.002']);
    const config = join(folder.path, 'config.toml');
    writeFileSync(config, renderConfig({ wire: run, origin }));
    const { wire: onGpu } = await read([config, '-m', 'nano-base', '--launch', '--python', 'python3']);
    expect(onGpu).toMatchObject({ ...run, policy: { embedded: null, launch: { python: 'python3' } }, backend: { ...run.backend, kind: 'torch' } });
  });
});
