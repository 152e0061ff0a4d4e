import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readEndpoints } from '../../../src/sessions/policy/endpoints.ts';
import { readTomlConfig } from '../../../src/cli/eval/toml-config.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { TemporaryFolder } from './temporary-folder.ts';

async function read(text: string) {
  using folder = new TemporaryFolder();
  return await readTomlConfig(folder.write('runs.toml', text));
}

describe('readTomlConfig', () => {
  it('gives each [[eval]] the top-level settings, overridden by its own', async () => {
    const runs = await read(`
      num_examples = 50
      model = "base"
      sampling_args = { top_k = 5, top_p = 0.9 }
      [[eval]]
      env_id = "a"
      [eval.sampling]
      top_k = 1
      [[eval]]
      id = "b"
      name = "second"
      num_examples = -1
      args = { topk = 2 }
      endpoint_id = "alias"
      headers = { "X-A" = "1" }
      shuffle = true
    `);
    expect(runs).toEqual([
      { name: null, envId: 'a', settings: { numExamples: 50, model: 'base', samplingArgs: { top_k: 1, top_p: 0.9 } } },
      {
        name: 'second',
        envId: 'b',
        settings: {
          numExamples: -1,
          model: 'alias',
          samplingArgs: { top_k: 5, top_p: 0.9 },
          envArgs: { topk: 2 },
          header: { 'X-A': '1' },
          shuffle: true,
        },
      },
    ]);
  });

  it('crosses every list of a sweep, the first slowest, and names the runs', async () => {
    const runs = await read(`
      [[ablation]]
      env_id = "a"
      env_args = { split = "test" }
      [ablation.sweep]
      temperature = [0.0, 1.0]
      [ablation.sweep.args]
      topk = [1, 3]
    `);
    expect(runs.map((run) => [run.name, run.settings.temperature, run.settings.envArgs])).toEqual([
      ['temperature 0, topk 1', 0, { split: 'test', topk: 1 }],
      ['temperature 0, topk 3', 0, { split: 'test', topk: 3 }],
      ['temperature 1, topk 1', 1, { split: 'test', topk: 1 }],
      ['temperature 1, topk 3', 1, { split: 'test', topk: 3 }],
    ]);
  });

  it('sweeps environments too', async () => {
    const runs = await read('[[ablation]]\nname = "both"\n[ablation.sweep]\nenv_id = ["a", "b"]');
    expect(runs.map((run) => [run.envId, run.name])).toEqual([
      ['a', 'both: env_id a'],
      ['b', 'both: env_id b'],
    ]);
  });

  it.each([
    [
      'num_exmaples = 3\n[[eval]]\nenv_id = "a"',
      /Unknown key "num_exmaples" in .*runs.toml \(did you mean num_examples\?\); known are .*rollouts_per_example/,
    ],
    ['env_id = "a"\nnum_examples = 3', /^env_id stands at the top of .*runs.toml\. Write it below \[\[eval\]\]/],
    ['[[eval]]\nenv_id = "a"\ntopk = 3', /Unknown key "topk" in \[\[eval\]\] 1 of/],
    ['[[eval]]\nenv_id = "a"\nverbose = true', /Unknown key "verbose"/],
    ['[[eval]]\nnum_examples = 3', /env_id in \[\[eval\]\] 1 of .* must name an environment, got nothing/],
    ['[[eval]]\nenv_id = "a"\nnum_examples = "3"', /^num_examples in .* must be an integer of at least 1, or -1 for all, got "3"$/],
    ['[[eval]]\nenv_id = "a"\nargs = {}\nenv_args = {}', / sets env_args under two names: args and env_args/],
    ['[eval]\nenv_id = "a"', /^eval in .* must be \[\[eval\]\] tables, got a table$/],
    ['num_examples = 3', /has no \[\[eval\]\] or \[\[ablation\]\] table/],
    ['[[ablation]]\nenv_id = "a"', /\[ablation.sweep\] in .* has no list/],
    ['[[ablation]]\nenv_id = "a"\n[ablation.sweep]\ntemperature = []', /must be a list of values to try, got an empty list/],
    ['[[ablation]]\nenv_id = "a"\n[ablation.sweep]\ntemperature = [1, 1.0]', /Runs 1 \(temperature 1\) and 2 .* have the same settings\./],
    ['[[ablation]]\nenv_id = "a"\n[ablation.sweep]\ntemperature = 1', /sweep.temperature in .* must be a list of values to try, got a number/],
    ['[[ablation]]\nenv_id = "a"\ntemperature = 1\n[ablation.sweep]\ntemperature = [1]', /temperature in .* is both fixed and swept/],
    ['[[ablation]]\nenv_id = "a"\nargs = { topk = 1 }\n[ablation.sweep.env_args]\ntopk = [1]', /env_args.topk in .* is both fixed and swept/],
    ['[[eval]\nenv_id = "a"', /is not valid TOML: line 1, column/],
  ])('refuses %j with one clear line', async (text, message) => {
    const error: unknown = await read(text).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain('\n');
  });

  it('names a file that is not there', async () => {
    await expect(readTomlConfig('/nowhere/runs.toml')).rejects.toThrow('Could not read the TOML file /nowhere/runs.toml: there is no such file');
  });

  it.each(['search-r1', 'topk-ablation'])('reads the example configs/eval/%s.toml', async (name) => {
    const runs = await readTomlConfig(join(import.meta.dirname, `../../../configs/eval/${name}.toml`));
    expect(runs.length).toBeGreaterThan(1);
    expect(runs.map((run) => run.envId)).toContain('search-r1');
  });

  it('reads the examples of docs/vf-eval.md, where a repeated alias makes replicas', async () => {
    const text = readFileSync(join(import.meta.dirname, '../../../docs/vf-eval.md'), 'utf8');
    const [registry, priced, config] = [...text.matchAll(/```toml\n(.*?)```/gs)].map((match) => match[1]!);
    using folder = new TemporaryFolder();
    const { endpoints } = await readEndpoints(folder.write('endpoints.toml', registry!));
    expect(endpoints.map((e) => [e.id, e.clientType])).toEqual([
      ['qwen-3b', 'tokens'],
      ['qwen-3b', 'tokens'],
    ]);
    expect((await readEndpoints(folder.write('priced.toml', priced!))).endpoints[0]!.price).toEqual({ input: 0.4, cached: 0.1, output: 1.6 });
    expect(await readTomlConfig(folder.write('runs.toml', config!))).toHaveLength(1 + 2 * 3);
  });
});
