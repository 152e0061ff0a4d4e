import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { presetNamed } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { resolveTrainingConfig } from '../../../src/trainer/config/resolve-config.ts';

const TINKER = { environment: { id: 'search-r1' }, model: { path: 'models/nano-base' }, backend: { kind: 'tinker', model: 'Qwen/Qwen3-8B' } };
const resolve = (...tables: Record<string, unknown>[]) => resolveTrainingConfig([TINKER, ...tables].map((table) => ({ source: '--set', table })));

describe('a configuration with backend.kind = "tinker"', () => {
  it('needs no policy server, and has the hosted service and its key by default', () => {
    expect(resolve().config.backend).toMatchObject({
      kind: 'tinker',
      baseUrl: null,
      apiKeyVar: 'TINKER_API_KEY',
      model: 'Qwen/Qwen3-8B',
      wire: 'auto',
      reduction: 'auto',
      padTo: 1,
      ttlHours: null,
    });
    expect(resolve({ lora: { targets: ['v_proj', 'q_proj', 'o_proj', 'k_proj'] } }).config.lora.targets).toHaveLength(4);
  });

  it.each([
    [{ rollouts: { temperature: 0.7 } }, /^rollouts\.temperature must be 1 with backend\.kind = "tinker".*got 0\.7/],
    [{ algorithm: { entropy_coefficient: 0.01 } }, /^algorithm\.entropy_coefficient must be 0 .*has no entropies; got 0\.01/],
    [{ lora: { alpha: 16 } }, /^lora\.alpha must be 32 .*got 16/],
    [{ lora: { targets: ['q_proj', 'v_proj'] } }, /^lora\.targets must be all layers of attention .*got q_proj, v_proj/],
    [{ model: { initial_adapter: '/a' } }, /^model\.initial_adapter must be left out .*no adapter can be sent to a service/],
    [{ policy: { base_url: 'http://h/v1' } }, /^policy\.base_url, .* must be left out .*the service that trains also samples/],
    [{ backend: { python: '/usr/bin/python3' } }, /^backend\.python must be left out .*because a service trains/],
    [{ backend: { dtype: 'bfloat16' } }, /^backend\.dtype must be left out/],
  ])('refuses %j', (table, problem) => {
    expect(() => resolve(table)).toThrow(ConfigError);
    expect(() => resolve(table)).toThrow(problem);
  });

  it("replaces a preset's server, and evaluates supervised steps", () => {
    const layers = [
      presetLayer(presetNamed('laptop', null)),
      { source: 'run.toml', table: { backend: { kind: 'tinker' }, lora: { alpha: 32 }, steps: 0, sft: { data: 'a.jsonl' } } },
    ];
    const { policy, evaluation } = resolveTrainingConfig(layers).config;
    expect([policy.embedded, evaluation.every > 0]).toEqual([null, true]);
    expect(resolve({ steps: 0, sft: { data: 'a.jsonl' } }).config.evaluation.every).toBeGreaterThan(0);
  });

  it('is the only one with the settings of a service', () => {
    expect(() => resolve({ backend: { kind: 'torch' }, policy: { base_url: 'http://h/v1' } })).toThrow(
      /^backend\.model is for backend\.kind = "tinker"/,
    );
  });
});
