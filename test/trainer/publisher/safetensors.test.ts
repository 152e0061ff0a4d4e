import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { openSafetensors } from '../../../src/trainer/publisher/safetensors.ts';
import { scanTensors } from '../../../src/trainer/publisher/tensor-scan.ts';
import { headerBytes, safetensorsFile, tensor, temporaryFolder } from './adapter-files.ts';

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

describe('openSafetensors', () => {
  it("reads what the format's own writer wrote", async () => {
    const path = join(import.meta.dirname, '../../models/nano-base/model.safetensors');
    const { file, header } = await openSafetensors(path);
    await file.close();
    expect(header.tensors.find(({ name }) => name === 'model.embed_tokens.weight')).toMatchObject({ dtype: 'F32', shape: [1600, 128] });
    expect(header.fileBytes).toBe(readFileSync(path).length);
  });

  it('lets bytes between tensors be', async () => {
    const header = headerBytes({ a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] }, b: { dtype: 'F16', shape: [2], data_offsets: [100, 104] } });
    const { file, header: read } = await openSafetensors(write(header, Buffer.alloc(200)));
    await file.close();
    expect(read.tensors.map(({ name, start, end }) => [name, start - read.dataStart, end - read.dataStart])).toEqual([
      ['a', 0, 4],
      ['b', 100, 104],
    ]);
  });

  const entry = { dtype: 'F32', shape: [2], data_offsets: [0, 8] };
  const bad: Record<string, [Buffer[], RegExp]> = {
    'an empty file': [[], /at least 8 bytes, got 0/],
    'a header longer than the file': [[headerBytes({ a: entry }).subarray(0, 20)], /a header of \d+ bytes, got a file of 20/],
    'a header of exabytes': [[Buffer.alloc(16, 0xff)], /at most 8388608 bytes/],
    'a header that is no JSON': [[Buffer.from('\u0002\0\0\0\0\0\0\0}{')], /a header of JSON/],
    'a header that is a list': [[headerBytes([])], /a JSON object/],
    'an unknown type': [[headerBytes({ a: { ...entry, dtype: 'I64' } }), Buffer.alloc(16)], /a as F32, F16, BF16, got "I64"/],
    'a type from the prototype': [[headerBytes({ a: { ...entry, dtype: 'toString' } }), Buffer.alloc(16)], /got "toString"/],
    'a negative size': [[headerBytes({ a: { ...entry, shape: [-2] } }), Buffer.alloc(8)], /whole numbers for a, got \[-2\]/],
    'sizes beyond counting': [[headerBytes({ a: { ...entry, shape: [2 ** 40, 2 ** 40] } }), Buffer.alloc(8)], /expected 4.8\d+e\+24 bytes/],
    'bytes that do not fit the shape': [[headerBytes({ a: { ...entry, shape: [3] } }), Buffer.alloc(8)], /12 bytes for a, got 8/],
    'a torn file': [[headerBytes({ a: entry }), Buffer.alloc(7)], /the file is torn/],
    'tensors in the same bytes': [[headerBytes({ a: entry, b: { ...entry, data_offsets: [4, 12] } }), Buffer.alloc(12)], /a and b in the same bytes/],
  };
  for (const [what, [parts, message]] of Object.entries(bad)) {
    it(`refuses ${what}`, async () => {
      await expect(openSafetensors(write(...parts))).rejects.toThrow(message);
    });
  }
});

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
      { numRuns: 60 },
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

  it('stops between chunks when told to', async () => {
    const path = write(safetensorsFile(new Map([['a', tensor([4], new Float32Array(4))]])));
    const { file, header } = await openSafetensors(path);
    await using _ = file;
    await expect(scanTensors(file, header, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });
});
