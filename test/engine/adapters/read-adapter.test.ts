import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { EngineInputError } from '../../../src/engine/engine-errors.ts';
import { type AdapterWish, NANO_ADAPTER, temporaryFolder, tensor, writeAdapter, type WrittenTensor } from '../../trainer/publisher/adapter-files.ts';
import { readAdapter, readModelConfig } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const config = await readModelConfig(join(import.meta.dirname, '../../models/nano-base'));
let count = 0;

function write(wish: AdapterWish = {}): string {
  const directory = join(folder.path, `a${count++}`);
  writeAdapter(directory, wish);
  return directory;
}

const Q = 'base_model.model.model.layers.2.self_attn.q_proj';
const attentionOnly = { ...NANO_ADAPTER, modules: NANO_ADAPTER.modules.filter(({ path }) => /\.[qv]_proj$/.test(path)) };

describe('readAdapter', () => {
  it('reads every pair in the order of the model, with rank, alpha and scale', async () => {
    const directory = write({ b: 0.5 });
    const adapter = await readAdapter(directory, config);
    expect(adapter).toMatchObject({ directory, rank: 4, alpha: 8, scale: 2 });
    expect(adapter.tensors.map(({ path, inputs, outputs }) => [path, inputs, outputs])).toEqual(
      NANO_ADAPTER.modules.map(({ path, inFeatures, outFeatures }) => [path, inFeatures, outFeatures]),
    );
    for (const { a, b, inputs, outputs } of adapter.tensors) expect([a.length, b.length]).toEqual([4 * inputs, 4 * outputs]);
  });

  it.each(['BF16', 'F16'] as const)('reads %s numbers as the numbers they approximate', async (dtype) => {
    const [half, whole] = await Promise.all([readAdapter(write({ b: 0.5, dtype }), config), readAdapter(write({ b: 0.5 }), config)]);
    const [x, y] = [half.tensors[3]!.b, whole.tensors[3]!.b];
    expect(Math.max(...x.map((number, i) => Math.abs(number - y[i]!)))).toBeLessThan(0.5 * 2 ** -7);
    expect(x.some((number) => number !== 0)).toBe(true);
  });

  it('accepts rank-stabilized scaling', async () => {
    expect((await readAdapter(write({ config: { use_rslora: true } }), config)).scale).toBe(8 / Math.sqrt(4));
  });

  it.each([['all-linear'], ['.*(q|v)_proj$'], [['q_proj', 'v_proj']], [['self_attn.q_proj', 'v_proj']]])(
    'lets target_modules %j say which layers there are',
    async (targets) => {
      const directory = write({ adapter: attentionOnly, config: { target_modules: targets } });
      expect((await readAdapter(directory, config)).tensors.length).toBe(8);
    },
  );

  it('accepts an adapter of some layers if it says that it is one', async () => {
    const adapter = { ...NANO_ADAPTER, modules: NANO_ADAPTER.modules.filter(({ path }) => path.includes('.layers.1.')) };
    expect((await readAdapter(write({ adapter, config: { layers_to_transform: [1] } }), config)).tensors.length).toBe(7);
    await expect(readAdapter(write({ adapter }), config)).rejects.toThrow(
      /lacks tensors for model\.layers\.0\.self_attn\.q_proj, .* and 18 more of target_modules;/,
    );
  });

  it('accepts a file of the newest PEFT, whose unused fields are null, empty or false', async () => {
    const quiet = {
      alora_invocation_tokens: null,
      arrow_config: null,
      exclude_modules: null,
      layer_replication: null,
      loftq_config: {},
      lora_bias: false,
      megatron_config: null,
      megatron_core: 'megatron.core',
      modules_to_save: null,
      target_parameters: null,
      trainable_token_indices: null,
      use_qalora: false,
      qalora_group_size: 16,
      use_dora: false,
      rank_pattern: {},
      alpha_pattern: {},
      init_lora_weights: 'eva',
      eva_config: { rho: 2 },
      lora_ga_config: { direction: 'ArB2r' },
      corda_config: null,
      kasa_config: null,
      use_bdlora: null,
      ensure_weight_tying: false,
    };
    expect((await readAdapter(write({ config: quiet }), config)).rank).toBe(4);
  });
});

describe('readAdapter, of what this engine does not compute', () => {
  const configs: Record<string, Readonly<Record<string, unknown>>> = {
    'another method': { peft_type: 'IA3' },
    DoRA: { use_dora: true },
    biases: { bias: 'all' },
    'whole layers in addition': { modules_to_save: ['lm_head'] },
    'ranks by layer': { rank_pattern: { q_proj: 8 } },
    'alphas by layer': { alpha_pattern: { q_proj: 16 } },
    'changed base weights (PiSSA)': { init_lora_weights: 'pissa_niter_16' },
    'changed base weights (OLoRA)': { init_lora_weights: 'olora' },
    'changed base weights (CorDA)': { init_lora_weights: 'corda', corda_config: { corda_method: 'ipm' } },
    'changed base weights (LoftQ)': { init_lora_weights: 'loftq', loftq_config: { loftq_bits: 4 } },
    'invocation tokens': { alora_invocation_tokens: [7] },
    'biases of its own': { lora_bias: true },
    'tokens of the embedding': { trainable_token_indices: { embed_tokens: [1] } },
    'layers that are repeated': { layer_replication: [[0, 2]] },
    'the layers of Megatron': { megatron_config: { tensor_model_parallel_size: 2 } },
    'a method that a later PEFT may have': { use_newest_lora: true },
    'settings that a later PEFT may have': { newest_config: { size: 2 } },
    'transposed weights': { fan_in_fan_out: true },
    'adapted parameters': { target_parameters: ['experts.gate'] },
    'a rank beyond the limit': { r: 513 },
    'another task': { task_type: 'SEQ_CLS' },
    'modules that the model does not have': { target_modules: ['q_proj', 'c_attn'] },
  };
  it.each(Object.entries(configs))('refuses %s as unsupported, in one line that names the field', async (_, fields) => {
    const failure = (await readAdapter(write({ config: fields }), config).catch((error: unknown) => error)) as EngineInputError;
    expect(failure).toBeInstanceOf(EngineInputError);
    expect(failure.code).toBe('unsupported');
    expect(failure.message).toMatch(
      new RegExp(`^${Object.keys(fields)[0]} (in .* must be .*, got|next to .* names layers that this model does not have:) .*`),
    );
    expect(failure.message).not.toContain('\n');
  });

  it('refuses tensors that are not linear layers of the model', async () => {
    const embedding = (tensors: Map<string, WrittenTensor>) =>
      tensors.set('base_model.model.lm_head.lora_A.weight', tensor([4, 128], new Float32Array(512)));
    await expect(readAdapter(write({ edit: embedding }), config)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/not linear layers of this model: base_model\.model\.lm_head\.lora_A\.weight/),
    });
    const fifth = (tensors: Map<string, WrittenTensor>) =>
      tensors.set('base_model.model.model.layers.4.mlp.up_proj.lora_A.weight', tensor([4, 128], new Float32Array(512)));
    await expect(readAdapter(write({ edit: fifth }), config)).rejects.toMatchObject({ code: 'unsupported' });
  });

  it('accepts ranks up to the given limit, and none above it', async () => {
    await expect(readAdapter(write(), config, { maxRank: 3 })).rejects.toThrow(/^r in .* must be at most 3, got 4$/);
    expect((await readAdapter(write(), config, { maxRank: 4 })).rank).toBe(4);
  });
});

describe('readAdapter, of what is broken', () => {
  const numbers = (size: number, at: number, value: number) => new Float32Array(size).fill(value, at, at + 1);
  const edits: Record<string, [(tensors: Map<string, WrittenTensor>) => unknown, RegExp]> = {
    'half a pair': [(tensors) => tensors.delete(`${Q}.lora_B.weight`), /has only lora_A of model\.layers\.2\.self_attn\.q_proj, not the pair;/],
    'a pair that is not there': [
      (tensors) => tensors.delete(`${Q}.lora_B.weight`) && tensors.delete(`${Q}.lora_A.weight`),
      /lacks tensors for model\.layers\.2\.self_attn\.q_proj of target_modules;/,
    ],
    'another rank than it says': [
      (tensors) => tensors.set(`${Q}.lora_A.weight`, tensor([8, 128], new Float32Array(1024))),
      /q_proj\.lora_A\.weight in .* must have shape \[4, 128\], got \[8, 128\]; check that the adapter belongs to this model and rank/,
    ],
    'a transposed matrix': [
      (tensors) => tensors.set(`${Q}.lora_B.weight`, tensor([4, 128], new Float32Array(512))),
      /must have shape \[128, 4\], got \[4, 128\]/,
    ],
    'a vector for a matrix': [(tensors) => tensors.set(`${Q}.lora_A.weight`, tensor([512], new Float32Array(512))), /got \[512\]/],
    NaN: [
      (tensors) => tensors.set(`${Q}.lora_A.weight`, tensor([4, 128], numbers(512, 130, NaN))),
      /q_proj\.lora_A.* contains a number that is not finite: NaN at \[1, 2\]/,
    ],
    'an infinity in bfloat16': [
      (tensors) => tensors.set(`${Q}.lora_B.weight`, tensor([128, 4], numbers(512, 7, -Infinity), 'BF16')),
      /not finite: -Infinity at \[1, 3\]/,
    ],
    'a number that overflows with the scale': [
      (tensors) => tensors.set(`${Q}.lora_B.weight`, tensor([128, 4], numbers(512, 0, 3e38))),
      /not finite: 3\.\d*e\+38/,
    ],
    'no tensors': [(tensors) => tensors.clear(), /contains no tensors/],
    'whole numbers': [
      (tensors) => tensors.set(`${Q}.lora_A.weight`, { dtype: 'I32', shape: [4, 128], bytes: Buffer.alloc(2048) }),
      /must be F32, F16, BF16, got "I32"/,
    ],
  };
  it.each(Object.entries(edits))('refuses %s as invalid, in one line', async (_, [edit, message]) => {
    const failure = (await readAdapter(write({ edit }), config).catch((error: unknown) => error)) as EngineInputError;
    expect(failure).toBeInstanceOf(EngineInputError);
    expect(failure.code).toBe('invalid');
    expect(failure.message).toMatch(message);
    expect(failure.message).not.toContain('\n');
  });

  it.each([
    ['a rank of 0', { r: 0 }, /^r in .* from 1, got 0$/],
    ['no rank', { r: null }, /got null$/],
    ['an alpha that is a word', { lora_alpha: '8' }, /^lora_alpha in .*, got "8"$/],
    ['no targets', { target_modules: [] }, /^target_modules in .*, got \[\]$/],
    ['a pattern that leaves tensors over', { target_modules: '.*(q|v)_proj' }, /contains tensors that are not in target_modules: .*k_proj/],
    ['tensors that it excludes', { exclude_modules: ['q_proj'] }, /contains tensors that are in exclude_modules: .*q_proj/],
    [
      'tensors that a pattern excludes',
      { target_modules: 'all-linear', exclude_modules: '.*layers.1.*' },
      /are in exclude_modules: model\.layers\.1/,
    ],
    ['targets that leave tensors over', { target_modules: ['q_proj'] }, /contains tensors that are not in target_modules: .* and 21 more;/],
  ])('refuses %s as invalid', async (_, fields, message) => {
    await expect(readAdapter(write({ config: fields }), config)).rejects.toMatchObject({ code: 'invalid', message: expect.stringMatching(message) });
  });

  it('distinguishes a torn file from a missing one, and from a missing directory', async () => {
    const torn = write();
    truncateSync(join(torn, 'adapter_model.safetensors'), 40_000);
    await expect(readAdapter(torn, config)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('the file is truncated; save the adapter again'),
    });
    rmSync(join(torn, 'adapter_model.safetensors'));
    await expect(readAdapter(torn, config)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('adapter_model.safetensors'),
    });
    rmSync(join(torn, 'adapter_config.json'));
    await expect(readAdapter(torn, config)).rejects.toMatchObject({ code: 'not_found', message: expect.stringContaining('adapter_config.json') });
    const missing = join(folder.path, 'nowhere');
    await expect(readAdapter(missing, config)).rejects.toMatchObject({
      code: 'not_found',
      message: `There is no adapter directory ${missing}; pass the path of a PEFT directory`,
    });
    mkdirSync(join(folder.path, 'odd'));
    writeFileSync(join(folder.path, 'odd', 'adapter_config.json'), '{');
    await expect(readAdapter(join(folder.path, 'odd'), config)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('adapter_config.json is not JSON;'),
    });
  });
});
