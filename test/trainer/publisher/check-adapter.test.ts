import { appendFileSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CancelledError, PublishError } from '../../../src/core/errors.ts';
import { checkAdapter } from '../../../src/trainer/publisher/check-adapter.ts';
import { manifestOf, NANO_ADAPTER, temporaryFolder, writeAdapter } from './adapter-files.ts';

const signal = new AbortController().signal;
const folder = temporaryFolder();
afterAll(() => folder.remove());

let count = 0;
const adapter = (wish: Parameters<typeof writeAdapter>[1] = {}) => writeAdapter(join(folder.path, `a${count++}`), wish);
const check = (manifest: ReturnType<typeof adapter>) => checkAdapter(manifest, NANO_ADAPTER, signal);
const weightsOf = ({ directory }: ReturnType<typeof adapter>) => join(directory, 'adapter_model.safetensors');

describe('checkAdapter', () => {
  for (const dtype of ['F32', 'BF16', 'F16'] as const) {
    it(`passes an adapter in ${dtype}`, async () => {
      await expect(check(adapter({ b: 0.1, dtype }))).resolves.toBeUndefined();
    });
  }

  it('passes configuration fields that have no effect', async () => {
    const config = { rank_pattern: {}, alpha_pattern: null, use_dora: false, modules_to_save: null, use_rslora: false, layers_to_transform: null };
    await expect(check(adapter({ config: { ...config, lora_dropout: 0.1, revision: null, inference_mode: true } }))).resolves.toBeUndefined();
  });

  const fields: Record<string, unknown> = {
    peft_type: 'IA3',
    r: 16,
    lora_alpha: 16,
    target_modules: ['q_proj'],
    bias: 'all',
    lora_bias: true,
    rank_pattern: { q_proj: 2 },
    alpha_pattern: { q_proj: 2 },
    use_dora: true,
    use_rslora: true,
    modules_to_save: ['lm_head'],
    layers_to_transform: [0],
    target_parameters: ['mlp.experts'],
    trainable_token_indices: [1],
  };
  for (const [field, value] of Object.entries(fields)) {
    it(`refuses ${field} = ${JSON.stringify(value)} by its name`, async () => {
      await expect(check(adapter({ config: { [field]: value } }))).rejects.toThrow(new RegExp(`^${field} in .*adapter_config\\.json must be `));
    });
  }

  it('refuses a configuration that is not JSON, or not an object', async () => {
    for (const text of ['{', '[]', 'null']) {
      const { directory } = adapter();
      writeFileSync(join(directory, 'adapter_config.json'), text);
      await expect(check(manifestOf(directory))).rejects.toThrow(/is not valid JSON|does not contain a JSON object/);
    }
  });

  it('refuses a torn file, even when the manifest was made from it', async () => {
    const manifest = adapter();
    truncateSync(weightsOf(manifest), readFileSync(weightsOf(manifest)).length - 1);
    await expect(check(manifest)).rejects.toThrow(/the file is truncated/);
    await expect(check(manifestOf(manifest.directory))).rejects.toThrow(/the file is truncated/);
  });

  it('notices files that changed after they were saved', async () => {
    const longer = adapter();
    appendFileSync(weightsOf(longer), 'x');
    await expect(check(longer)).rejects.toThrow(/adapter_model\.safetensors .*1 byte after its last tensor belongs to no tensor/);
    const other = adapter();
    writeFileSync(join(other.directory, 'adapter_config.json'), `${readFileSync(join(other.directory, 'adapter_config.json'), 'utf8')} `);
    await expect(check(other)).rejects.toThrow(/adapter_config\.json changed .* now has \d+$/);
  });

  it('requires every file of the manifest, and both files of an adapter in it', async () => {
    const manifest = adapter();
    const more = { ...manifest, files: [...manifest.files, { name: 'README.md', bytes: 3, sha256: '' }] };
    await expect(check(more)).rejects.toThrow(/Check that nothing deleted the directory/);
    writeFileSync(join(manifest.directory, 'README.md'), 'four');
    await expect(check(more)).rejects.toThrow(/README\.md changed .* now has 4$/);
    await expect(check({ ...manifest, files: manifest.files.slice(0, 1) })).rejects.toThrow(
      /manifest of .* does not list adapter_model\.safetensors/,
    );
  });

  it('keeps the cause of a missing file, in the class of its boundary', async () => {
    const manifest = adapter();
    rmSync(weightsOf(manifest));
    const error: unknown = await check(manifest).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PublishError);
    expect((error as PublishError).cause).toMatchObject({ code: 'ENOENT' });
  });

  it('rejects with CancelledError when cancelled', async () => {
    await expect(checkAdapter(adapter(), NANO_ADAPTER, AbortSignal.abort())).rejects.toThrow(CancelledError);
  });
});
