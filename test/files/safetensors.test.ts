import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openSafetensors } from '../../src/files/open-safetensors.ts';
import { readTensorBytes, SafetensorsError } from '../../src/files/safetensors.ts';
import { headerBytes, temporaryFolder } from '../trainer/publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

let count = 0;
const write = (...parts: Buffer[]): string => {
  const path = join(folder.path, `f${count++}.safetensors`);
  writeFileSync(path, Buffer.concat(parts));
  return path;
};
describe('openSafetensors', () => {
  it("reads what the format's own writer wrote", async () => {
    const path = join(import.meta.dirname, '../models/nano-base/model.safetensors');
    const { file, header } = await openSafetensors(path);
    await file.close();
    expect(header.tensors.find(({ name }) => name === 'model.embed_tokens.weight')).toMatchObject({ dtype: 'F32', shape: [1600, 128] });
    expect(header.fileBytes).toBe(readFileSync(path).length);
  });

  it.each([
    ['before the first tensor', [4, 8], [8, 12], 12, /4 bytes before a belong to no tensor/],
    ['between tensors', [0, 4], [100, 104], 104, /96 bytes before b belong to no tensor/],
    ['after the last tensor', [0, 4], [4, 8], 1008, /1,000 bytes after its last tensor belong to no tensor; save the file again/],
  ])('refuses bytes %s that belong to none', async (_, a, b, size, message) => {
    const header = headerBytes({ a: { dtype: 'F32', shape: [1], data_offsets: a }, b: { dtype: 'F16', shape: [2], data_offsets: b } });
    await expect(openSafetensors(write(header, Buffer.alloc(size)))).rejects.toThrow(message);
    await expect(openSafetensors(write(header, Buffer.alloc(size)), { otherTypes: 'list' })).rejects.toThrow(message);
  });

  const entry = { dtype: 'F32', shape: [2], data_offsets: [0, 8] };
  const bad: Record<string, [Buffer[], RegExp]> = {
    'an empty file': [[], /it has only 0 bytes/],
    'a header longer than the file': [
      [headerBytes({ a: entry }).subarray(0, 20)],
      /its header should have \d+ bytes, but the whole file has only 20/,
    ],
    'a header of exabytes': [[Buffer.alloc(16, 0xff)], /the limit is 8388608/],
    'a header that is not JSON': [[Buffer.from('\u0002\0\0\0\0\0\0\0}{')], /not JSON/],
    'a header that is a list': [[headerBytes([])], /not a JSON object/],
    'an unknown type': [[headerBytes({ a: { ...entry, dtype: 'I64' } }), Buffer.alloc(16)], /dtype of a must be F32, F16, BF16, got "I64"/],
    'a type from the prototype': [[headerBytes({ a: { ...entry, dtype: 'toString' } }), Buffer.alloc(16)], /got "toString"/],
    'a negative size': [[headerBytes({ a: { ...entry, shape: [-2] } }), Buffer.alloc(8)], /shape of a must be whole numbers, got \[-2\]/],
    'sizes beyond counting': [[headerBytes({ a: { ...entry, shape: [2 ** 40, 2 ** 40] } }), Buffer.alloc(8)], /must have 4.8\d+e\+24 bytes/],
    'bytes that do not fit the shape': [[headerBytes({ a: { ...entry, shape: [3] } }), Buffer.alloc(8)], /a must have 12 bytes, got 8/],
    'a truncated file': [[headerBytes({ a: entry }), Buffer.alloc(7)], /the file is truncated/],
    'tensors in the same bytes': [[headerBytes({ a: entry, b: { ...entry, data_offsets: [4, 12] } }), Buffer.alloc(12)], /a and b overlap/],
  };
  for (const [what, [parts, message]] of Object.entries(bad)) {
    it(`refuses ${what}`, async () => {
      await expect(openSafetensors(write(...parts))).rejects.toThrow(message);
    });
  }

  const mixed = { a: entry, buffer: { dtype: 'I64', shape: [1], data_offsets: [8, 16] } };

  it('lists tensors of other types if asked to, and reads the rest', async () => {
    const { file, header } = await openSafetensors(write(headerBytes(mixed), Buffer.alloc(16)), { otherTypes: 'list' });
    await file.close();
    expect(header.tensors.map(({ name }) => name)).toEqual(['a']);
    expect([...header.others]).toEqual([['buffer', 'I64']]);
  });

  it('reads a header up to the limit, and no longer', async () => {
    const path = write(headerBytes(mixed), Buffer.alloc(16));
    const length = headerBytes(mixed).length - 8;
    await expect(openSafetensors(path, { otherTypes: 'list', maxHeaderBytes: length - 1 })).rejects.toThrow(/the limit is \d+/);
    const { file } = await openSafetensors(path, { otherTypes: 'list', maxHeaderBytes: length });
    await file.close();
  });
});

describe('readTensorBytes', () => {
  it('fills all bytes, or says that the file was truncated after its header was read', async () => {
    const path = write(headerBytes({ a: { dtype: 'F32', shape: [3], data_offsets: [0, 12] } }), Buffer.from('twelve bytes'));
    const { file, header } = await openSafetensors(path);
    await using _ = file;
    const { start } = header.tensors[0]!;
    const bytes = Buffer.alloc(12);
    await readTensorBytes(file, bytes, start);
    expect(bytes.toString()).toBe('twelve bytes');
    truncateSync(path, start + 6);
    const late = readTensorBytes(file, bytes, start);
    await expect(late).rejects.toThrow(SafetensorsError);
    await expect(late).rejects.toThrow(/only 6 of 12 bytes could be read at offset \d+/);
  });
});
