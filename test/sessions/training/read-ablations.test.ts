import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isRunName } from '../../../src/schemas/run-name.ts';
import { readAblations } from '../../../src/sessions/training/read-ablations.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'vf-ablations-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function read(text: string) {
  const path = join(folder, 'rates.toml');
  writeFileSync(path, text);
  return readAblations(path);
}

describe('readAblations', () => {
  it('makes a run of every combination of the swept settings with every seed, seeds fastest, over fixed settings', () => {
    const [ablation, ...others] = read(
      'steps = 3\n[[ablation]]\nseeds = 2\n"rollouts.temperature" = 0.9\n[ablation.rollouts]\nmax_tokens = 8\n[ablation.sweep]\n"optimizer.learning_rate" = [1e-3, 2e-3]\n[ablation.sweep.algorithm.kl]\ncoefficient = [0]\n',
    );
    expect(others).toEqual([]);
    expect(ablation).toMatchObject({ name: 'rates', where: `[[ablation]] 1 of ${folder}/rates.toml` });
    expect(ablation!.runs.map(({ label }) => label)).toEqual(
      [0.001, 0.002].flatMap((rate) => [0, 1].map((seed) => `lr ${rate}, coefficient 0, seed ${seed}`)),
    );
    expect(ablation!.runs[3]).toMatchObject({
      name: 'rates: lr 0.002, coefficient 0, seed 1',
      layer: {
        table: {
          rollouts: { temperature: 0.9, max_tokens: 8 },
          optimizer: { learning_rate: 0.002 },
          algorithm: { kl: { coefficient: 0 } },
          seed: 1,
        },
      },
    });
  });

  it('takes seeds alone, lists of seeds, presets and lists as values, and whole keys where two end alike', () => {
    expect(read('[[ablation]]\nseeds = [5, 3]\n')[0]!.runs.map(({ layer }) => layer.table)).toEqual([{ seed: 5 }, { seed: 3 }]);
    const lists = read('[[ablation]]\n[ablation.sweep]\npreset = ["tinker"]\n"lora.targets" = [["q_proj"], ["q_proj", "v_proj"]]\n');
    expect(lists[0]!.runs.map(({ label }) => label)).toEqual(['preset tinker, targets ["q_proj"]', 'preset tinker, targets ["q_proj","v_proj"]']);
    const alike = read('[[ablation]]\n[ablation.sweep]\n"a.rank" = [1]\n"b.rank" = [2]\n');
    expect(alike[0]!.runs.map(({ label }) => label)).toEqual(['a.rank 1, b.rank 2']);
  });

  it('gives every run a name that a run may have, and that no other has', () => {
    const [ablation] = read(`[[ablation]]\n[ablation.sweep.environment.args]\nsplit = ["a", "b\\u0007"]\nquery = ["${'x'.repeat(90)}"]\n`);
    expect(ablation!.runs.map(({ name }) => isRunName(name))).toEqual([true, true]);
    expect(new Set(ablation!.runs.map(({ name }) => name)).size).toBe(2);
  });

  it('refuses to sweep a secret, and does not quote it', () => {
    const sweep = () => read('[[ablation]]\n[ablation.sweep.environment.args]\nserper_api_key = ["s3cret", "other"]\n');
    expect(sweep).toThrow(/^environment\.args\.serper_api_key in .* is swept, but its values are secret/);
    expect(sweep).not.toThrow(/s3cret/);
  });

  it.each([
    ['no list and no seeds', 'optimizer = { learning_rate = 1 }', /has neither seeds nor \[ablation\.sweep\], so there is nothing to compare/],
    ['an empty sweep', 'sweep = {}', /\[ablation\.sweep\] in .* has no list to sweep/],
    ['an empty list', 'sweep = { steps = [] }', /sweep\.steps in .* must be a list of values to try, got an empty list/],
    ['a single value', 'sweep = { steps = 3 }', /sweep\.steps in .* must be a list of values to try, got a number/],
    ['a sweep that is not a table', 'seeds = 2\nsweep = 3', /\[ablation\.sweep\] in .* must be a table of lists, got a number/],
    ['no seed', 'seeds = []', /seeds in .* must be a list of whole numbers such as \[0, 1, 2\], or their count from 1 to 1000, got \[\]/],
    ['0 seeds', 'seeds = 0', /got 0/],
    ['half a seed', 'seeds = 1.5', /got 1\.5/],
    ['too many seeds', 'seeds = 1000000000', /got 1000000000/],
    ['unknown seeds', 'seeds = ["first"]', /got \["first"\]/],
    ['a negative seed', 'seeds = [0, -1]', /got \[0,-1\]/],
    ['seeds in two places', 'seeds = 2\nsweep = { seed = [1] }', /has both seeds and sweep\.seed\. Leave one out/],
    ['seeds and a seed', 'seeds = 2\nseed = 4', /has both seeds and seed\. Leave one out/],
    ['a key fixed and swept', '"optimizer.beta1" = 0.9\n[ablation.sweep.optimizer]\nbeta1 = [0.8]', /optimizer\.beta1 in .* is both fixed and swept/],
    ['a key swept twice', '[ablation.sweep]\n"lora.rank" = [1]\n[ablation.sweep.lora]\nrank = [2]', /lora\.rank is swept twice in/],
    ['a name that no run may have', 'name = "a\\nb"\nseeds = 2', /name in .* must be one line of visible text/],
    [
      'a sweep beyond all measure',
      `sweep = { a = [${'1,'.repeat(101)}], b = [${'1,'.repeat(100)}] }`,
      /has 10,100 runs: a \(101\) × b \(100\)\. The limit is 10,000/,
    ],
  ])('refuses %s', (_, table, message) => {
    expect(() => read(`[[ablation]]\n${table}\n`)).toThrow(message);
  });

  it('refuses two ablations of one name, and reads none of evaluations', () => {
    expect(() => read('[[ablation]]\nseeds = 2\n[[ablation]]\nseeds = 3\n')).toThrow(
      /\[\[ablation\]\] 2 of .* has the name of an earlier one, "rates"/,
    );
    expect(read('[[ablation]]\nenv_id = "search-r1"\n[ablation.sweep]\ntopk = [1]\n')).toEqual([]);
    expect(read('steps = 3\n')).toEqual([]);
  });
});
