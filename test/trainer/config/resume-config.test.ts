import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';
import { assertResumable, CHANGEABLE_ON_RESUME, describeDifferences } from '../../../src/trainer/config/resume-config.ts';
import { configKeys, configTable } from '../../../src/schemas/config-keys.ts';
import { trainingConfigSchema } from '../../../src/schemas/training-config.ts';

const BASE = {
  environment: { id: 'search-r1', args: { topk: 3 } },
  model: { path: 'm' },
  policy: { base_url: 'http://h/v1' },
  roles: { judge: { base_url: 'http://j/v1', model: 'j' } },
};
const resolve = (table: Record<string, unknown> = {}) =>
  resolveTrainingConfig([
    { source: 'base', table: BASE },
    { source: 'change', table },
  ]).wire;

describe('assertResumable', () => {
  it.each([
    { steps: 200 },
    { name: 'another name' },
    { policy: { base_url: null, launch: {} } },
    { backend: { device: 'cpu', threads: 2 } },
    { evaluation: { every: 5 }, checkpoint: { keep: 0 }, guards: { on_alarm: 'stop' } },
    { rollouts: { max_concurrent: 1, timeout_s: 5 } },
    { environment: { args: { nothing: null } } },
    { roles: { judge: { max_concurrent: 2, cache: 'off', budget_calls: 9 } } },
    { roles: { judge: { base_url: 'http://k/v1', model: 'j' } } },
  ])('lets %j change', (table) => {
    expect(() => assertResumable(resolve(), resolve(table))).not.toThrow();
  });

  it.each([
    [{ roles: { judge: { base_url: 'http://j/v1', model: 'k' } } }, 'A resumed run cannot change roles.judge.model from "j" to "k"'],
    [{ seed: 1 }, 'A resumed run cannot change seed from 0 to 1; leave it out or start a new run'],
    [{ model: { path: 'n' } }, 'A resumed run cannot change model.path from "m" to "n"'],
    [{ lora: { rank: 8 } }, /lora.rank from 16 to 8/],
    [{ environment: { args: { topk: 5 } } }, /environment.args.topk from 3 to 5/],
    [{ environment: { args: { max_turns: 5 } } }, /environment.args.max_turns from unset to 5/],
    [{ rollouts: { temperature: 0.5 } }, /rollouts.temperature from 1 to 0.5/],
    [{ rollouts: { examples_per_step: 8 } }, /rollouts.examples_per_step/],
    [{ algorithm: { kl: { coefficient: 0.1 } } }, /algorithm.kl.coefficient .* add --allow-changes/],
    [{ optimizer: { learning_rate: 1 } }, /optimizer.learning_rate .* add --allow-changes/],
  ])('refuses %j and names key, old and new value', (table, message) => {
    expect(() => assertResumable(resolve(), resolve(table))).toThrow(ConfigError);
    expect(() => assertResumable(resolve(), resolve(table))).toThrow(message);
  });

  it('names what allows the change as its caller spells it', () => {
    const resume = () => assertResumable(resolve(), resolve({ optimizer: { learning_rate: 1 } }), { allow: 'pass allowChanges: true' });
    expect(resume).toThrow(
      /^A resumed run cannot change optimizer\.learning_rate from \S+ to 1; leave it out, pass allowChanges: true to change it anyway, or start a new run$/,
    );
  });

  it('lets the number of supervised steps change where they are the only ones', () => {
    const sft = (steps: number, given: object = {}) => resolve({ steps: 0, sft: { data: 'a.jsonl', steps }, policy: { base_url: null }, ...given });
    expect(() => assertResumable(sft(2), sft(3))).not.toThrow();
    expect(() => assertResumable(sft(2, { steps: 1, policy: BASE.policy }), sft(3, { steps: 1, policy: BASE.policy }))).toThrow(
      /sft.steps from 2 to 3/,
    );
    expect(() => assertResumable(sft(2), sft(2, { sft: { data: 'a.jsonl', steps: 2, validate_every: 5 } }))).not.toThrow();
  });

  it('lets the optimiser change where that is asked for, and still not the model', () => {
    const options = { allowOptimizer: true };
    expect(() => assertResumable(resolve(), resolve({ optimizer: { learning_rate: 1 } }), options)).not.toThrow();
    expect(() => assertResumable(resolve(), resolve({ model: { path: 'n' } }), options)).toThrow(/model.path/);
  });
});

describe('describeDifferences', () => {
  it('lists every key that differs, old and new', () => {
    expect(describeDifferences(resolve(), resolve({ steps: 7, lora: { rank: 8 } }))).toEqual([
      { key: 'steps', before: 100, after: 7, changeable: true },
      { key: 'lora.rank', before: 16, after: 8, changeable: false },
    ]);
  });

  it('treats a hidden secret as equal', () => {
    const [before, after] = [resolve(), resolve({ environment: { args: { serper_api_key: 'abc' } } })];
    const recorded = { ...before, environment: { ...before.environment, args: { topk: 3, serper_api_key: '***' } } };
    expect(describeDifferences(recorded, after)).toEqual([]);
  });
});

describe('CHANGEABLE_ON_RESUME', () => {
  it('names keys and tables that exist', () => {
    const keys = configKeys(configTable(trainingConfigSchema)).map(({ path }) => path);
    for (const name of CHANGEABLE_ON_RESUME) expect(keys.some((key) => key === name || key.startsWith(`${name}.`))).toBe(true);
  });
});
