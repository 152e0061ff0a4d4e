import { describe, expect, it } from 'vitest';
import { vfTrain } from '../../../src/cli/commands/vf-train.ts';
import { renderHelp } from '../../../src/cli/options/render-help.ts';
import { runWords } from '../../../src/cli/options/run-defined.ts';
import type { TrainArguments } from '../../../src/cli/train/train-arguments.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { configKeys, configTable } from '../../../src/schemas/config-keys.ts';
import { KEY_FLAGS } from '../../../src/cli/train/key-flags.ts';
import { quietContext } from '../options/quiet-context.ts';
import { parseTrain } from './parse-train.ts';
import { trainingConfigSchema } from '../../../src/schemas/training-config.ts';

const words = (line: string) => line.split(' ');
const tables = ({ layers }: TrainArguments) => layers.map(({ source, table }) => [source, table]);

describe('trainArguments', () => {
  it('makes a layer of every flag, named after it', () => {
    const argv = [
      ...words('search-r1 --preset tinker -m models/x -b http://a/v1,http://b/v1 -k KEY --server-model base --python py --steps 5 -n 4'),
      ...words('-r 2 -c 3 --async --lr 1e-3 --rank 8 --seed 7 -o out --name me --json --plain -v --dry-run'),
      '-a',
      '{"topk":5}',
      '--eval-args',
      '{"data_split":"dev"}',
    ];
    const parsed = parseTrain(argv);
    expect(parsed).toMatchObject({ target: 'search-r1', preset: 'tinker', action: 'dry-run', resume: null });
    expect(parsed.display).toEqual({ json: true, plain: true, verbose: true });
    expect(Object.fromEntries(tables(parsed) as [string, unknown][])).toEqual({
      '--model': { model: { path: 'models/x' } },
      '--env-args': { environment: { args: { topk: 5 } } },
      '--eval-args': { environment: { eval_args: { data_split: 'dev' } } },
      '--name': { name: 'me' },
      '--output-dir': { output_dir: 'out' },
      '--api-base-url': { policy: { base_url: ['http://a/v1', 'http://b/v1'], launch: null, embedded: null } },
      '--api-key-var': { policy: { api_key_var: 'KEY' } },
      '--server-model': { policy: { model: 'base' } },
      '--python': { backend: { kind: 'torch', python: 'py' } },
      '--steps': { steps: 5 },
      '--examples-per-step': { rollouts: { examples_per_step: 4 } },
      '--rollouts-per-example': { rollouts: { rollouts_per_example: 2 } },
      '--max-concurrent': { rollouts: { max_concurrent: 3 } },
      '--async': { rollouts: { max_staleness: 1 } },
      '--lr': { optimizer: { learning_rate: 0.001 } },
      '--rank': { lora: { rank: 8 } },
      '--seed': { seed: 7 },
    });
  });

  it('puts --set last, in order, and reads values as TOML, null, or bare text', () => {
    const sets = [
      'lora.rank=8',
      'model.path=m odel',
      'name=123',
      'optimizer.max_grad_norm=null',
      'lora.targets=["q_proj"]',
      'algorithm.loss.ratio=token',
    ];
    const more = [
      'environment.args.dataset=nq',
      'environment.args.topk=5',
      'policy.launch.args=["--a", "b"]',
      'policy.base_url=["http://a"]',
      'policy.launch.env.N=1',
    ];
    const parsed = parseTrain(['x', ...[...sets, ...more].flatMap((text) => ['--set', text]), '--steps', '3']);
    expect(tables(parsed)).toEqual([
      ['--steps', { steps: 3 }],
      ['--set', { lora: { rank: 8 } }],
      ['--set', { model: { path: 'm odel' } }],
      ['--set', { name: '123' }],
      ['--set', { optimizer: { max_grad_norm: null } }],
      ['--set', { lora: { targets: ['q_proj'] } }],
      ['--set', { algorithm: { loss: { ratio: 'token' } } }],
      ['--set', { environment: { args: { dataset: 'nq' } } }],
      ['--set', { environment: { args: { topk: 5 } } }],
      ['--set', { policy: { launch: { args: ['--a', 'b'] } } }],
      ['--set', { policy: { base_url: ['http://a'] } }],
      ['--set', { policy: { launch: { env: { N: '1' } } } }],
    ]);
  });

  it('lets no value of --set smuggle in a second key', () => {
    expect(tables(parseTrain(['x', '--set', 'environment.args.a=1\nb = 2']))).toEqual([['--set', { environment: { args: { a: '1\nb = 2' } } }]]);
  });

  it('--launch and --vllm-python take the place of a URL in a file, -b that of [policy.launch]', () => {
    expect(tables(parseTrain(words('x --launch --vllm-python py')))).toEqual([
      ['--launch', { policy: { base_url: null, api_key_var: null, launch: {}, embedded: null } }],
      ['--vllm-python', { policy: { base_url: null, api_key_var: null, launch: { python: 'py' }, embedded: null } }],
    ]);
    expect(tables(parseTrain(words('x -b http://a/v1 -b http://b/v1')))).toEqual([
      ['--api-base-url', { policy: { base_url: ['http://a/v1', 'http://b/v1'], launch: null, embedded: null } }],
    ]);
  });

  it('--tinker samples and trains at a service, with the alpha that all of them have, whatever a file says', () => {
    expect(tables(parseTrain(words('x --tinker Qwen/Qwen3-8B')))).toEqual([
      [
        '--tinker',
        {
          policy: { base_url: null, api_key_var: null, launch: null, embedded: null },
          backend: { kind: 'tinker', model: 'Qwen/Qwen3-8B' },
          lora: { alpha: 32 },
        },
      ],
    ]);
  });

  it('--embedded samples and trains in this process, whatever a file says', () => {
    expect(tables(parseTrain(words('x --embedded')))).toEqual([
      ['--embedded', { policy: { base_url: null, api_key_var: null, launch: null, embedded: {} }, backend: { kind: 'embedded' } }],
    ]);
  });

  it.each([
    ['search-r1 -R', { target: 'search-r1', resume: { directory: null, allowChanges: false } }],
    ['-R', { target: null, resume: { directory: null, allowChanges: false } }],
    ['-R out/x --allow-changes', { target: null, resume: { directory: 'out/x', allowChanges: true } }],
    ['run.toml --resume=out/x', { target: 'run.toml', resume: { directory: 'out/x', allowChanges: false } }],
    ['run.toml --show-config', { action: 'show-config' }],
  ])('reads %j', (line, expected) => {
    expect(parseTrain(words(line))).toMatchObject(expected);
  });

  it.each([
    ['x --stpes 3', /^Unknown flag --stpes \(did you mean --steps\?\); vf-train --help lists them all$/],
    ['x --steps', /^--steps needs a value: batches to train on/],
    ['x y', /takes one argument, .*, got 2: x y/],
    ['--steps 3', /Name an environment or a TOML file/],
    ['x -b http://a --launch', /Use only one of -b .*, --launch .*, --embedded .*; got -b .* and --launch/],
    ['x --tinker A --embedded', /got --embedded .* and --tinker/],
    ['x --embedded --vllm-python py', /got --launch .* and --embedded/],
    ['x --launch -k KEY', /-k names the API key of a running server \(-b\); leave it out with --launch/],
    ['x -k KEY --embedded', /leave it out with --embedded/],
    ['x --set rank', /--set must be key=value, such as .* got "rank"/],
    ['x --set =3', /--set must be key=value/],
    ['x --set a..b=3', /got "a..b="/],
    ['x -a {topk:5}', /^-a must be a JSON object/],
    ['x --eval-args [1]', /--eval-args must be a JSON object/],
    ['x -n x', /^-n must be an integer of at least 1, got "x"$/],
    ['x -T 3', /^-T must be a number above 0 and at most 2, got 3$/],
    ['x --top-p 0.9', /^--top-p must be 1, got 0.9$/],
    ['x -S top_k=5', /^top_k in -S cannot be trained with/],
    ['x -S reasoning_effort=low', /^reasoning_effort in -S is for the chat template, .*--default-chat-template-kwargs/],
    ['x -S top_p=0.5', /^top_p in -S must be 1, got 0.5/],
  ])('refuses %j in one line', (line, message) => {
    expect(() => parseTrain(words(line))).toThrow(ConfigError);
    expect(() => parseTrain(words(line))).toThrow(message);
  });
});

describe('vfTrain', () => {
  it('teaches the command', () => {
    const text = renderHelp(vfTrain);
    for (const name of ['search-r1-grpo-format', 'tinker', '--set', '--resume', '--preset laptop', '(default: 4e-5)']) expect(text).toContain(name);
  });

  it('names an argument of the environment that was given as a flag', async () => {
    await expect(runWords(vfTrain, ['search-r1', '--max-turns', '3'], quietContext())).rejects.toThrow(
      `Unknown flag --max-turns. It is an argument of search-r1: -a '{"max_turns": 3}'`,
    );
    await expect(runWords(vfTrain, ['search-r1', '--min-turns', '3'], quietContext())).rejects.toThrow('Unknown flag --min-turns; vf-train --help');
  });
});

describe('KEY_FLAGS', () => {
  it('name keys that the schema has', () => {
    const table = configTable(trainingConfigSchema);
    const known = [...configKeys(table).map(({ path }) => path), ...table.tables.flatMap(({ tables: inner }) => inner.map(({ path }) => path))];
    expect(Object.values(KEY_FLAGS).filter(({ key }) => !known.includes(key))).toEqual([]);
  });
});
