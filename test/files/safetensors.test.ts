import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openSafetensors, readTensorBytes, SafetensorsError } from '../../src/files/safetensors.ts';
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

  const mixed = { a: entry, buffer: { dtype: 'I64', shape: [1], data_offsets: [8, 16] } };

  it('lists tensors of other types where those are of no matter, and reads the rest', async () => {
    const { file, header } = await openSafetensors(write(headerBytes(mixed), Buffer.alloc(16)), { otherTypes: 'list' });
    await file.close();
    expect(header.tensors.map(({ name }) => name)).toEqual(['a']);
    expect([...header.others]).toEqual([['buffer', 'I64']]);
  });

  it('reads a header as long as it is told to, and no longer', async () => {
    const path = write(headerBytes(mixed), Buffer.alloc(16));
    const length = headerBytes(mixed).length - 8;
    await expect(openSafetensors(path, { otherTypes: 'list', maxHeaderBytes: length - 1 })).rejects.toThrow(/at most \d+ bytes/);
    const { file } = await openSafetensors(path, { otherTypes: 'list', maxHeaderBytes: length });
    await file.close();
  });
});

describe('readTensorBytes', () => {
  it('fills its bytes whole, or says that the file was cut after its header was read', async () => {
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
    await expect(late).rejects.toThrow(/expected 12 bytes from \d+ on, got 6/);
  });
});
