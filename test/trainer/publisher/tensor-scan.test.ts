import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { openSafetensors } from '../../../src/files/open-safetensors.ts';
import { scanTensors } from '../../../src/trainer/publisher/tensor-scan.ts';
import { safetensorsFile, tensor, temporaryFolder } from './adapter-files.ts';

const signal = new AbortController().signal;
const folder = temporaryFolder();
afterAll(() => folder.remove());

let count = 0;
const write = (...parts: Buffer[]): string => {
  const path = join(folder.path, `f${count++}.safetensors`);
  writeFileSync(path, Buffer.concat(parts));
  return path;
};
const scan = async (path: string) => {
  const { file, header } = await openSafetensors(path);
  await using _ = file;
  return await scanTensors(file, header, signal);
};

describe('scanTensors', () => {
  const hostile = { F32: [NaN, Infinity, -Infinity], BF16: [NaN, Infinity, -Infinity], F16: [NaN, Infinity, -Infinity] };
  /** Finite in every type. */
  const value = fc.double({ min: -60_000, max: 60_000, noNaN: true });

  it('finds the first number that is not finite, wherever it is', async () => {
    const dtype = fc.constantFrom('F32' as const, 'BF16' as const, 'F16' as const);
    const tensors = fc.array(fc.record({ dtype, values: fc.array(value, { minLength: 1, maxLength: 9 }) }), { minLength: 1, maxLength: 5 });
    const wish = fc.record({ tensors, where: fc.nat(), at: fc.nat(), which: fc.nat(2), pad: fc.nat(3) });
    await fc.assert(
      fc.asyncProperty(wish, async (w) => {
        const arrays = w.tensors.map(({ values }) => Float32Array.from(values));
        const files = (list: Float32Array[]) =>
          safetensorsFile(new Map(list.map((values, i) => [`t${i}`, tensor([values.length], values, w.tensors[i]!.dtype)])));
        expect((await scan(write(files(arrays)))).nonFinite).toBeNull();
        const place = w.where % arrays.length;
        const index = w.at % arrays[place]!.length;
        arrays[place]![index] = hostile[w.tensors[place]!.dtype][w.which]!;
        expect((await scan(write(files(arrays)))).nonFinite).toEqual({ name: `t${place}`, index });
      }),
      { numRuns: 25 },
    );
  });

  it('looks at every chunk of a large file, and hashes all of it', async () => {
    const values = new Float32Array(2_500_000).fill(3e38);
    const file = () =>
      safetensorsFile(
        new Map([
          ['small', tensor([3], new Float32Array(3), 'BF16')],
          ['large', tensor([2_500_000], values)],
        ]),
      );
    expect(await scan(write(file()))).toEqual({
      nonFinite: null,
      sha256: createHash('sha256').update(file()).digest('hex'),
      bytesRead: file().length,
    });
    for (const index of [0, 1_048_575, 1_048_576, 2_499_999]) {
      values[index] = NaN;
      expect((await scan(write(file()))).nonFinite).toEqual({ name: 'large', index });
      values[index] = 1;
    }
  });

  it('stops between chunks when cancelled', async () => {
    const path = write(safetensorsFile(new Map([['a', tensor([4], new Float32Array(4))]])));
    const { file, header } = await openSafetensors(path);
    await using _ = file;
    await expect(scanTensors(file, header, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });
});
