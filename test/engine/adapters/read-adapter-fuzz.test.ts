import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { NANO_ADAPTER, temporaryFolder, writeAdapter } from '../../trainer/publisher/adapter-files.ts';
import { damage, damaged, nullIfRefused } from '../model/damaged-file.ts';
import { readAdapter, readModelConfig } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

describe('readAdapter, of a damaged directory', () => {
  it('reads it as it is, or refuses it in one line: nothing else ever happens', async () => {
    const config = await readModelConfig(join(import.meta.dirname, '../../models/nano-base'));
    const adapter = { ...NANO_ADAPTER, modules: NANO_ADAPTER.modules.slice(0, 2) };
    const whole = join(folder.path, 'whole');
    writeAdapter(whole, { adapter, b: 1, config: { layers_to_transform: [0] } });
    const names = ['adapter_config.json', 'adapter_model.safetensors'] as const;
    const directory = join(folder.path, 'damaged');
    mkdirSync(directory);
    const outcomes = { read: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...names), damage, async (name, one) => {
        for (const each of names) writeFileSync(join(directory, each), readFileSync(join(whole, each)));
        writeFileSync(join(directory, name), damaged(readFileSync(join(whole, name)), one));
        const read = await readAdapter(directory, config).catch(nullIfRefused);
        outcomes[read === null ? 'refused' : 'read']++;
        for (const { a, b, inputs, outputs } of read?.tensors ?? []) {
          expect([a.length, b.length]).toEqual([read!.rank * inputs, outputs * read!.rank]);
          expect([...a, ...b].every(Number.isFinite)).toBe(true);
        }
      }),
      // A flipped bit of a weight leaves an adapter that reads.
      { numRuns: 150, examples: [[names[1], { at: 0.999, kind: 'flip', bytes: Uint8Array.of(0) }]] },
    );
    expect(Math.min(outcomes.read, outcomes.refused)).toBeGreaterThan(0);
  });
});
