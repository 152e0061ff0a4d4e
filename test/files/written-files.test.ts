import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readManifest, writeManifest } from '../../src/trainer/records/checkpoint-manifest.ts';
import { bestRecord } from '../../src/trainer/records/best-version.ts';
import { adapterFault, writtenAdapter } from '../../src/files/written-files.ts';
import { assertStartAdapter } from '../../src/trainer/gradients/assert-start-adapter.ts';
import { readAdapter, readModelConfig } from '../engine/from-directory.ts';
import { NANO_ADAPTER, temporaryFolder, writeAdapter } from '../trainer/publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const base = join(import.meta.dirname, '../../models/nano-base');
const wish = { rank: 4, alpha: 8, targets: [...new Set(NANO_ADAPTER.modules.map(({ path }) => path.split('.').at(-1)!))] };

/** The adapter's folder, as a training leaves it. */
async function written(record: 'best' | 'checkpoint'): Promise<string> {
  const above = join(folder.path, record);
  rmSync(above, { recursive: true, force: true });
  const adapter = join(above, 'adapter');
  mkdirSync(above);
  writeAdapter(adapter, {});
  if (record === 'checkpoint') await writeManifest(above, { step: 1, version: 1, model: 'm', counters: {} });
  else {
    const { name, text } = bestRecord({ metric: 'reward_mean', step: 1, version: 1, value: 0.5 }, await writtenAdapter(adapter));
    writeFileSync(join(above, name), text);
  }
  return adapter;
}

describe('adapterFault', () => {
  it.each(['best', 'checkpoint'] as const)(
    'finds what changed in the adapter of %s, for the engine and for the start of a training',
    async (record) => {
      const adapter = await written(record);
      writeFileSync(join(adapter, 'README.md'), 'a card');
      expect(await adapterFault(adapter)).toBeNull();
      const config = await readModelConfig(base);
      await readAdapter(adapter, config);
      await assertStartAdapter(adapter, wish, base);
      // Another adapter that is as valid: only its sum tells them apart.
      writeAdapter(adapter, { b: 0.5 });
      const fault = 'adapter/adapter_model.safetensors changed after it was written';
      expect(await adapterFault(`${adapter}/`)).toBe(fault);
      const message = `The adapter in ${adapter} is damaged: ${fault}. Restore it from a copy or use another adapter; to use it as it is, copy its folder elsewhere`;
      await expect(readAdapter(adapter, config)).rejects.toThrow(message);
      await expect(assertStartAdapter(adapter, wish, base)).rejects.toThrow(message);
      const isManifestWhole = record === 'checkpoint' && 'value' in (await readManifest(join(adapter, '..')));
      expect(isManifestWhole).toBe(false);
      const copy = join(folder.path, 'copies', record);
      cpSync(adapter, copy, { recursive: true });
      await readAdapter(copy, config);
      await assertStartAdapter(copy, wish, base);
      rmSync(join(adapter, 'adapter_config.json'));
      expect(await adapterFault(adapter)).toBe('adapter/adapter_config.json is missing');
    },
  );

  it('asks nothing of an adapter whose record is older, damaged or of something else', async () => {
    const adapter = await written('best');
    for (const text of [
      '{"step": 1}',
      '{"files": 3}',
      '{"files": [3, {"path": 1}]}',
      '{',
      '{"files": [{"path": "other/x", "bytes": 1, "sha256": ""}]}',
    ]) {
      writeFileSync(join(adapter, '../evaluation.json'), text);
      expect(await adapterFault(adapter)).toBeNull();
    }
  });
});
