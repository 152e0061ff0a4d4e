import fc from 'fast-check';
import { parse } from 'smol-toml';
import { describe, expect, it } from 'vitest';
import { configHelpText, presetsText } from '../../../src/reports/training/config-help.ts';
import { renderConfig } from '../../../src/reports/training/render-config.ts';
import { tomlValue } from '../../../src/reports/training/toml-value.ts';
import { configKeys, configTable } from '../../../src/schemas/config-keys.ts';
import { trainingConfigSchema } from '../../../src/schemas/training-config.ts';
import { bundledPresets } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

const BASE = { source: 'run.toml', table: { environment: { id: 'search-r1' }, model: { path: 'm' }, policy: { base_url: 'http://h/v1' } } };
const resolve = (table: Record<string, unknown> = {}) => resolveTrainingConfig([BASE, { source: '--set', table }]);
const readBack = (text: string) => resolveTrainingConfig([{ source: 'config.toml', table: parse(text) }]).wire;

/** TOML has no null and no -0; `__proto__` is not a key of ours. */
function withoutNull(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNull);
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([key]) => key !== '__proto__');
    return Object.fromEntries(entries.map(([key, inner]) => [key, withoutNull(inner)]));
  }
  return value === null || value === 0 ? false : value;
}

describe('renderConfig', () => {
  it.each([
    {},
    { policy: { base_url: null, launch: { args: ['--enforce-eager'], env: { OMP_NUM_THREADS: '1' } } } },
    { policy: { base_url: null, embedded: {} }, backend: { kind: 'embedded' } },
    { policy: { base_url: null, embedded: { threads: 2 } } },
    { roles: { judge: { base_url: ['http://j/v1'], model: 'j"', budget_tokens: 5 }, critic: { use: 'policy' } } },
    { policy: { base_url: ['http://a/v1', 'http://b/v1'] } },
    { logging: { tensorboard: true, wandb: { project: 'p', tags: ['a "tag"'] } } },
    { optimizer: { max_grad_norm: null, epsilon: 1e-12 }, algorithm: { kl: { clamp: null }, loss: { log_ratio_clamp: null, dual_clip: 3 } } },
    { rollouts: { timeout_s: null }, environment: { args: { dataset: 'a"b\\c\n\u007f', 'a key': [1, 'x', { y: 0.5 }], on: true } } },
  ])('reads back as what it was: %j', (table) => {
    const resolved = resolve(table);
    expect(readBack(renderConfig(resolved))).toEqual(resolved.wire);
  });

  it('reads back as what it was, for every preset', () => {
    for (const preset of bundledPresets()) {
      const resolved = resolveTrainingConfig([presetLayer(preset), BASE]);
      expect(readBack(renderConfig(resolved))).toEqual(resolved.wire);
    }
  });

  it('says what every key means and where its value comes from', () => {
    const text = renderConfig(resolve({ lora: { rank: 8 }, optimizer: { max_grad_norm: null } }));
    expect(text).toContain('# Rank of every adapted layer; the server must allow it (--max-lora-rank).\nrank = 8  # --set; default 16\n');
    expect(text).toContain('max_grad_norm = "none"  # --set; default 1\n');
    expect(text).toContain('# dual_clip: not set  # default\n');
    expect(text).toContain('# [policy.launch]: not set');
    const keys = configKeys(configTable(trainingConfigSchema)).filter(
      ({ path }) => !/^(policy\.(launch|embedded)|logging\.wandb|algorithm\.teacher)\./.test(path),
    );
    for (const { name } of keys) expect(text).toMatch(new RegExp(`^(# ${name}:|${name} =)`, 'm'));
  });

  it('writes no secret, and a file without it is not taken for the same', () => {
    const text = renderConfig(
      resolve({ environment: { args: { serper_api_key: 'hunter22', note: 'swordfish' } }, policy: { base_url: 'http://u:hunter22@h/v1' } }),
      { secrets: ['swordfish'] },
    );
    expect(text).not.toMatch(/hunter22|swordfish/);
    expect(() => readBack(text)).toThrow(/lacks its credentials.*pass the URL again/);
  });
});

describe('tomlValue', () => {
  it('is read back as the value {any JSON without null}', () => {
    const json = fc
      .jsonValue({ maxDepth: 2, stringUnit: fc.constantFrom('a', '=', '.', '"', "'", '\\', '\n', '\t', '\u0000', '\u007f', 'é', '😀') })
      .map(withoutNull);
    fc.assert(
      fc.property(json, (value) => {
        expect(parse(`v = ${tomlValue(value)}`)['v']).toEqual(value);
      }),
    );
  });
});

describe('configHelpText, presetsText', () => {
  it('fit in 80 columns and leave nothing out', () => {
    const [help, presets] = [configHelpText(), presetsText(bundledPresets())];
    expect([...help.split('\n'), ...presets.split('\n')].filter((line) => line.length > 80 && line.trim().includes(' '))).toEqual([]);
    for (const { name } of configKeys(configTable(trainingConfigSchema))) expect(help).toContain(`  ${name}: `);
    for (const { name, differences } of bundledPresets())
      for (const part of [name, ...differences.map(({ key }) => key)]) expect(presets).toContain(part);
  });
});
