import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { assertStartAdapter } from '../../../src/trainer/gradients/assert-start-adapter.ts';
import { EmbeddedBackend } from '../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { TorchBackend } from '../../../src/trainer/gradients/torch/torch-backend.ts';
import { type AdapterWish, NANO_ADAPTER, temporaryFolder, writeAdapter } from '../publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const LORA = { rank: 4, alpha: 8, targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] };
const NANO_BASE = join(import.meta.dirname, '../../models/nano-base');
const signal = new AbortController().signal;
let count = 0;

function write(wish: AdapterWish): string {
  const directory = join(folder.path, `a${count++}`);
  writeAdapter(directory, wish);
  return directory;
}

/** The refusal of each backend, of which the torch one starts no Python. */
async function refusals(wish: AdapterWish, lora = LORA): Promise<readonly string[]> {
  const initial = write(wish);
  const adapter = { ...lora, seed: 0, initial };
  const torch = { dtype: 'auto', devices: ['cpu'], gradientCheckpointing: false, threads: 1, timeoutMs: 1000, logPath: null } as const;
  const started = [
    EmbeddedBackend.start({ modelPath: NANO_BASE, adapter, signal }),
    TorchBackend.start({ ...torch, python: join(folder.path, 'no-python'), modelPath: NANO_BASE, adapter, signal }),
  ];
  const reasons = (await Promise.allSettled(started)).map((result) => (result.status === 'rejected' ? (result.reason as Error).message : 'started'));
  return reasons.map((text) => text.replace(initial, 'ADAPTER'));
}

describe('assertStartAdapter', () => {
  it.each<[string, AdapterWish, RegExp]>([
    ['PiSSA', { config: { init_lora_weights: 'pissa' } }, /^init_lora_weights in .* got "pissa": this initialisation changed the base's own weights/],
    ['activated LoRA', { config: { alora_invocation_tokens: [7] } }, /^alora_invocation_tokens in .* got \[7\]/],
    ['DoRA', { config: { use_dora: true } }, /^use_dora in .* got true: DoRA/],
    ['some layers', { config: { layers_to_transform: [0, 1] } }, /adapts some layers only \(layers_to_transform\)/],
    ['another rank', { adapter: { ...NANO_ADAPTER, rank: 2 } }, /has rank 2, but this trainer has 4\. Set lora\.rank to 2/],
    ['another scale', { config: { use_rslora: true } }, /has alpha 8 with rsLoRA .*, which is 16 of plain LoRA, .* Set lora\.alpha to 16/],
    ['rsLoRA of a scale with many digits', { config: { use_rslora: true, lora_alpha: 16.1 } }, /which is 32\.2 of plain LoRA/],
    [
      'a file that lacks layers',
      { adapter: { ...NANO_ADAPTER, modules: NANO_ADAPTER.modules.filter(({ path }) => !path.endsWith('0.self_attn.q_proj')) } },
      /lacks tensors for model\.layers\.0\.self_attn\.q_proj of target_modules; save the adapter again$/,
    ],
    [
      'other targets',
      { adapter: { ...NANO_ADAPTER, modules: NANO_ADAPTER.modules.filter(({ path }) => path.endsWith('q_proj')) } },
      /Set lora\.targets to \["q_proj"\]/,
    ],
  ])('gives both backends one refusal of %s, before anything is started', async (_, wish, message) => {
    const [embedded, torch] = await refusals(wish);
    expect(torch).toMatch(message);
    expect(embedded).toBe(torch);
  });

  it.each<[string, AdapterWish, RegExp]>([
    [
      'of a base of other sizes',
      { adapter: { ...NANO_ADAPTER, modules: NANO_ADAPTER.modules.map((module) => ({ ...module, inFeatures: module.inFeatures / 2 })) } },
      /^base_model\.model\.model\.layers\.\d\.\S+ in ADAPTER\/adapter_model\.safetensors must have shape \[\d+, \d+\], got \[\d+, \d+\]; check that the adapter belongs to this model/,
    ],
    [
      'of a deeper base',
      { adapter: { ...NANO_ADAPTER, modules: [...NANO_ADAPTER.modules, { path: 'model.layers.4.mlp.up_proj', inFeatures: 128, outFeatures: 384 }] } },
      /contains tensors that are not linear layers of this model: base_model\.model\.model\.layers\.4\.mlp\.up_proj/,
    ],
    ...[String.raw`.*\.(q|k|v|o)_proj`, ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj']].map(
      (targets): [string, AdapterWish, RegExp] => [
        `with tensors of layers that its targets leave out: ${JSON.stringify(targets)}`,
        { config: { target_modules: targets } },
        /^ADAPTER\/adapter_model\.safetensors contains tensors that are not in target_modules: model\.layers\.0\.mlp\.(gate|down)_proj.*; save the adapter again$/,
      ],
    ),
    [
      'with tensors that it excludes',
      { config: { exclude_modules: ['up_proj'] } },
      /^ADAPTER\/adapter_model\.safetensors contains tensors that are in exclude_modules: model\.layers\.0\.mlp\.up_proj/,
    ],
    [
      'with a number that is not finite',
      { edit: (tensors) => [...tensors.values()][0]!.bytes.writeFloatLE(NaN, 4) },
      /contains a number that is not finite: NaN at \[0, 1\]/,
    ],
  ])('refuses an adapter %s', async (_, wish, message) => {
    const directory = write(wish);
    const problem = await assertStartAdapter(directory, LORA, NANO_BASE).catch((error: Error) => error.message.replace(directory, 'ADAPTER'));
    expect(problem).toMatch(message);
  });

  it('accepts rsLoRA at alpha · √rank, which is the same function, and a target pattern', async () => {
    await expect(assertStartAdapter(write({ config: { use_rslora: true, lora_alpha: 7.3 } }), { ...LORA, alpha: 7.3 * 2 }, NANO_BASE)).resolves.toBe(
      true,
    );
    for (const target_modules of ['all-linear', String.raw`.*\.layers\.\d+\..*_proj`])
      await expect(assertStartAdapter(write({ config: { target_modules } }), LORA, NANO_BASE)).resolves.toBe(true);
  });
});
