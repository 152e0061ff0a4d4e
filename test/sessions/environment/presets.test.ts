import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { presetsText } from '../../../src/reports/training/config-help.ts';
import { bundledPresets, presetNamed, presetsFor } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

const BASE = {
  source: 'run.toml',
  table: { environment: { id: 'search-r1' }, model: { path: 'models/nano-base' }, policy: { base_url: 'http://h/v1' } },
};
const layer = (table: Record<string, unknown>) => ({ source: '--set', table });

describe('bundledPresets()', () => {
  it.each(bundledPresets().map((preset) => [preset.name, preset] as const))('%s resolves with any number of steps', (_name, preset) => {
    for (const steps of [1, 1005]) expect(() => resolveTrainingConfig([presetLayer(preset), BASE, layer({ steps })])).not.toThrow();
  });

  it('name what happens to constant groups, so that none changes with the default', () => {
    const chosen = bundledPresets().map((preset) => {
      const { wire, origin } = resolveTrainingConfig([presetLayer(preset), BASE]);
      expect(origin('algorithm.constant_groups')).toBe(`preset ${preset.name}`);
      return [preset.name, wire.algorithm.constant_groups];
    });
    expect(chosen).toEqual([
      ['laptop', 'drop'],
      ['laptop-copy', 'drop'],
      ['nq-mini', 'keep'],
      ['search-r1-grpo', 'keep'],
      ['search-r1-grpo-format', 'keep'],
      ['tinker', 'drop'],
      ['laptop', 'drop'],
      ['grpo-000', 'keep'],
      ['laptop', 'drop'],
      ['laptop', 'drop'],
      ['azr', 'keep'],
      ['crsp', 'keep'],
      ['laptop', 'drop'],
      ['ddai-phase1', 'keep'],
      ['ddai-phase1-mini', 'keep'],
      ['ddai-r1', 'keep'],
      ['ddai-r1-mini', 'keep'],
      ['ddai-r2', 'keep'],
      ['ddai-r2-mini', 'keep'],
      ['ddai-r3', 'keep'],
      ['ddai-r3-mini', 'keep'],
    ]);
    expect(resolveTrainingConfig([BASE]).wire.algorithm.constant_groups).toBe('keep');
  });

  it("has upstream's numbers", () => {
    const { wire } = resolveTrainingConfig([presetLayer(presetNamed('search-r1-grpo-format', null)), BASE]);
    expect(wire).toMatchObject({
      steps: 1005,
      rollouts: { examples_per_step: 512, rollouts_per_example: 5, temperature: 1 },
      algorithm: { kl: { coefficient: 0.001, estimator: 'k3', clamp: 10 }, entropy_coefficient: 0.001, old_log_probs: 'trainer', minibatches: 10 },
      optimizer: { learning_rate: 5e-6, warmup_steps: 286, max_grad_norm: 1 },
      environment: { args: { structure_format_score: 0.2, final_format_score: 0.1, max_turns: 4 } },
    });
    const tinker = resolveTrainingConfig([presetLayer(presetNamed('tinker', null)), BASE]).wire;
    expect(tinker).toMatchObject({
      lora: { rank: 32 },
      rollouts: { examples_per_step: 512, rollouts_per_example: 8 },
      algorithm: { loss: { objective: 'importance_sampling', aggregation: 'sum' } },
      optimizer: { learning_rate: 4e-5, beta2: 0.95, epsilon: 1e-8, max_grad_norm: null },
    });
  });

  it('have no more updates in a step than a smaller batch has groups', () => {
    const small = layer({ rollouts: { examples_per_step: 8 } });
    expect(resolveTrainingConfig([presetLayer(presetNamed('search-r1-grpo', null)), BASE, small]).wire.algorithm.minibatches).toBe(8);
    const asked = layer({ algorithm: { minibatches: 9 } });
    expect(() => resolveTrainingConfig([presetLayer(presetNamed('search-r1-grpo', null)), BASE, small, asked])).toThrow(/got 9 \(--set\)/);
  });

  it('take from each other what they share', () => {
    const resolved = (name: string) =>
      resolveTrainingConfig([presetLayer(presetNamed(name, 'visual-rag')), layer({ policy: { base_url: 'http://h/v1' } })]);
    const { wire } = resolved('ddai-r3-mini');
    expect(wire).toMatchObject({
      steps: 11,
      model: { path: 'Qwen/Qwen2.5-VL-3B-Instruct' },
      lora: { rank: 16, alpha: 32 },
      environment: { args: { phase: 2, max_turns: 7, generator_max_tokens: 5120, max_images: 8 } },
      rollouts: { examples_per_step: 8, rollouts_per_example: 8, scoring_timeout_s: 90 },
      roles: { judge: { max_concurrent: 64 } },
      algorithm: { minibatches: 4, loss: { ratio: 'sequence', clip_low: 3e-4, clip_high: 4e-4 } },
    });
    expect(wire).not.toHaveProperty('extends');
    expect(resolved('ddai-r3').wire).toMatchObject({ lora: { rank: 32 }, roles: { judge: { max_concurrent: 512 } }, algorithm: { minibatches: 32 } });
    expect(resolved('ddai-phase1').wire.environment.args).not.toHaveProperty('max_images');
    const { differences } = presetNamed('ddai-r2', 'visual-rag');
    expect(differences.filter(({ key }) => key === 'model.path').map(({ upstream }) => upstream)).toEqual(['the merged weights of round 1']);
  });

  it.each([
    // preset, rows, B, N, turns, tokens of the generator, concurrent calls of a role
    ['ddai-phase1', 637, 32, 4, 7, undefined, undefined],
    ['ddai-r1', 854, 16, 8, 7, 3072, 64],
    ['ddai-r2', 366, 8, 16, 15, 3072, 64],
    ['ddai-r3', 366, 32, 16, 15, 5120, 512],
  ])("%s has the numbers of its authors' table: %d rows in whole batches of %d", (name, rows, batch, rollouts, turns, tokens, calls) => {
    const { wire } = resolveTrainingConfig([presetLayer(presetNamed(name, 'visual-rag')), layer({ policy: { base_url: 'http://h/v1' } })]);
    expect(wire).toMatchObject({
      steps: Math.floor(rows / batch),
      rollouts: { examples_per_step: batch, rollouts_per_example: rollouts },
      environment: { args: { max_turns: turns, max_response_length: 2048 } },
      algorithm: { loss: { clip_low: 3e-4, clip_high: 4e-4 }, entropy_coefficient: 0, kl: { coefficient: 0 } },
    });
    expect(wire.environment.args['generator_max_tokens']).toBe(tokens);
    if (tokens === undefined) return;
    expect(wire.environment.args).toMatchObject({ phase: 2, coefficients: { judge: 1, ndcg: 0, format: 0 } });
    expect(wire).toMatchObject({
      rollouts: { scoring_timeout_s: 90 },
      roles: { generator: { max_concurrent: calls, total_timeout_s: 600 }, judge: { max_concurrent: calls } },
    });
    const dataset = presetNamed(name, 'visual-rag').differences.find(({ key }) => key === 'environment.args.dataset');
    expect(dataset?.upstream).toContain(`${rows} rows`);
  });

  it('suggests the preset that was meant', () => {
    expect(() => presetNamed('tinkr', null)).toThrow('Unknown preset "tinkr" (did you mean tinker?)');
  });
});

describe('presets of an environment', () => {
  const folder = mkdtempSync(join(tmpdir(), 'vf-presets-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'environment.ts'), 'export const loadEnvironment = () => null;');
  mkdirSync(join(folder, 'presets'));
  const write = (name: string, text: string) => writeFileSync(join(folder, 'presets', `${name}.toml`), text);

  it('come before those of search-r1, with the environment as it was named', () => {
    write('laptop', 'steps = 7\n[preset]\nsummary = "learns to fly"\n[environment.args]\nheight = 3\n');
    const preset = presetNamed('laptop', folder);
    expect(preset).toMatchObject({ environment: folder, summary: 'learns to fly', differences: [] });
    expect(preset.table).toEqual({ steps: 7, environment: { id: folder, args: { height: 3 } } });
    expect(presetNamed('laptop', null).environment).toBe('search-r1');
    expect(presetNamed('tinker', folder).environment).toBe('search-r1');
    expect(() => presetNamed('lptop', folder)).toThrow(/did you mean laptop\?\); known presets: laptop, laptop-copy, nq-mini, search-r1-grpo/);
  });

  it('are listed before the others, each once', () => {
    write('laptop', 'steps = 7\n[preset]\nsummary = "learns to fly"\n');
    const names = (environment: string) => presetsFor(environment).map((preset) => `${preset.environment} ${preset.name}`);
    const bundled = bundledPresets().map((preset) => `${preset.environment} ${preset.name}`);
    expect(names(folder)).toEqual([`${folder} laptop`, ...bundled]);
    expect(names('grpo_000').slice(0, 2)).toEqual(['grpo-000 laptop', 'grpo-000 grpo-000']);
    expect(names('grpo_000').toSorted()).toEqual(bundled.toSorted());
    expect(presetsText(presetsFor(folder))).toMatch(/ --preset laptop\n  learns to fly\n/);
    expect(() => presetsFor('no-such-environment')).toThrow(ConfigError);
  });

  it.each([
    ['no head', 'steps = 7\n', /bad\.toml is not a preset: in \[preset\], the table must be an object\.$/],
    ['no summary', '[preset]\ndifferences = []\n', /in \[preset\], the table must have the key "summary"\.$/],
    ['an unknown key in its head', '[preset]\nsummary = "x"\ncolour = "red"\n', /must not have the key "colour"\.$/],
    ['what is not TOML', 'steps = = 7\n', /bad\.toml is not valid TOML: line 1, column 9/],
  ])('are refused in one line with %s', (_, text, message) => {
    write('bad', text);
    expect(() => presetNamed('bad', folder)).toThrow(message);
    rmSync(join(folder, 'presets', 'bad.toml'));
  });
});
