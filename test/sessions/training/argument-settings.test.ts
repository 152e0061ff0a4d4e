import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parseTrain } from '../../cli/train/parse-train.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-argument-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function read(argv: readonly string[]) {
  const parsed = parseTrain(argv);
  return resolveTraining(parsed, { variables: {}, environmentFile: join(folder, '.env') });
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const LAPTOP = ['grpo-000', '--preset', 'laptop'];
const withArguments = (args: object) => [...LAPTOP, '-a', JSON.stringify(args)];

describe('settings of vf-train in the arguments of grpo-000', () => {
  it('override the preset, from a file, an object or the arguments themselves, and say where they come from', async () => {
    const yaml = file('config.yaml', 'group_size: 4\nclip_epsilon: 0.3\nlearning_rate: 0.01\n');
    for (const args of [
      { config: yaml },
      { config: { group_size: 4, clip_epsilon: 0.3, learning_rate: 0.01 } },
      { groupSize: 4, clip_epsilon: 0.3, learning_rate: 0.01 },
    ]) {
      const { wire, origin } = await read(withArguments(args));
      expect(wire).toMatchObject({
        rollouts: { rollouts_per_example: 4, examples_per_step: 8 },
        algorithm: { loss: { clip_low: 0.3, clip_high: 0.3 }, epochs: 1 },
        optimizer: { learning_rate: 0.01 },
      });
      expect(['rollouts.rollouts_per_example', 'rollouts.examples_per_step'].map(origin)).toEqual(['environment.args', 'preset laptop']);
    }
  });

  it('take a bundled model by its name', async () => {
    expect((await read(withArguments({ model_name_or_path: 'nano-base' }))).wire.model.path).toBe(resolve('models/nano-base'));
  });

  it('make num_epochs a number of steps, with the rows of the data set and those of a step', async () => {
    const rules = { dataset: 'rule-lookup', num_epochs: 10 };
    expect((await read(withArguments({ ...rules, batch_size: 1 }))).wire).toMatchObject({ steps: 300, rollouts: { examples_per_step: 1 } });
    expect((await read([...withArguments({ ...rules, data_limit: 20 }), '-n', '3'])).wire.steps).toBe(67);
  });

  const toml = `[environment]\nid = "grpo-000"\n[environment.args]\ngroup_size = 4\n[model]\npath = "nano-base"\n[policy.embedded]\n[backend]\nkind = "embedded"\n`;
  it.each([
    [
      'a flag',
      [...withArguments({ config: { group_size: 4 } }), '-r', '8'],
      'rollouts.rollouts_per_example is 8 (--rollouts-per-example)',
      'group_size',
    ],
    [
      '--set',
      [...withArguments({ clip_epsilon: 0.3 }), '--set', 'algorithm.loss.clip_high=0.28'],
      'algorithm.loss.clip_high is 0.28 (--set)',
      'clip_epsilon',
    ],
    ['the file', [file('both.toml', `${toml}[rollouts]\nrollouts_per_example = 2\n`)], 'rollouts.rollouts_per_example is 2 (', 'group_size'],
    ['the model', [...withArguments({ model_name_or_path: 'nano-base' }), '-m', '/other'], 'model.path is "/other" (--model)', 'model_name_or_path'],
    ['--steps', [...withArguments({ num_epochs: 2 }), '--steps', '3'], 'steps is 3 (--steps)', 'num_epochs'],
  ])('refuse another value of %s in a line that names both', async (_what, argv, setting, argument) => {
    const error = (await read(argv).catch((thrown: unknown) => thrown)) as Error;
    expect(error.name).toBe('ConfigError');
    expect(error.message).toContain(setting);
    expect(error.message).toContain(`, but the environment's argument ${argument} sets it to`);
    expect(error.message).not.toContain('\n');
  });

  it('agree with the same value of a flag or a file', async () => {
    expect((await read([file('same.toml', `${toml}[rollouts]\nrollouts_per_example = 4\n`)])).wire.rollouts.rollouts_per_example).toBe(4);
    expect((await read([...withArguments({ group_size: 4 }), '-r', '4'])).wire.rollouts.rollouts_per_example).toBe(4);
  });

  it('of a preset are defaults, like the rest of it', async () => {
    const own = join(folder, 'own');
    mkdirSync(join(own, 'presets'), { recursive: true });
    writeFileSync(
      join(own, 'environment.ts'),
      `export const loadEnvironment = () => null;
       export const trainingSettings = ({ group }) => (group === undefined ? [] : [{ argument: 'group', key: 'rollouts.rollouts_per_example', value: group }]);`,
    );
    const text =
      '[preset]\nsummary = "s"\n[environment.args]\ngroup = 6\n[model]\npath = "nano-base"\n[policy.embedded]\n[backend]\nkind = "embedded"\n';
    writeFileSync(join(own, 'presets', 'six.toml'), text);
    const size = async (...flags: string[]) => (await read([own, '--preset', 'six', ...flags])).wire.rollouts.rollouts_per_example;
    expect(await size()).toBe(6);
    expect(await size('-r', '3')).toBe(3);
    expect(await size('-a', '{"group": 5}')).toBe(5);
    await expect(size('-a', '{"group": 5}', '-r', '3')).rejects.toThrow("the environment's argument group sets it to 5");
  });

  it('refuse an unknown key like any other', async () => {
    await expect(read(withArguments({ config: { groupsize: 4 } }))).rejects.toThrow('The key "groupsize" is unknown');
  });
});
