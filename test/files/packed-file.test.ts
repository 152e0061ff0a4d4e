import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { isDamage, isPacked, streamUnpacked } from '../../src/files/packed-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-packed-'));
afterAll(() => rmSync(folder, { recursive: true }));

const text = Buffer.from('{"id":"a","contents":"Zürich"}\n'.repeat(5000));
const packers = { gz: gzipSync, br: brotliCompressSync, zst: zstdCompressSync };

function written(name: string, bytes: Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

const read = async (path: string): Promise<Buffer> => buffer(await streamUnpacked(path, { pieceBytes: 1000 }));

describe('streamUnpacked', () => {
  it.each(Object.entries(packers))('gives the bytes of a file .%s as they were', async (end, pack) => {
    const path = written(`whole.jsonl.${end}`, pack(text));
    expect(isPacked(path)).toBe(true);
    expect((await read(path)).equals(text)).toBe(true);
  });

  it('reads a file with any other name as it is, also in a folder with such a name', async () => {
    for (const name of ['plain.jsonl', 'gz', 'a.gz.jsonl', 'a.GZ']) {
      const path = written(name, gzipSync('a'));
      expect([isPacked(path), await read(path)]).toEqual([false, gzipSync('a')]);
    }
    expect(isPacked('corpus.gz/passages')).toBe(false);
  });

  it.each(Object.entries(packers))(
    'ends with an error that `isDamage` knows where a file .%s is cut, changed, empty or not packed',
    async (end, pack) => {
      const packed = pack(text);
      const changed = Buffer.from(packed).fill(0xff, 8, 12);
      for (const bytes of [packed.subarray(0, -5), changed, Buffer.alloc(0), text]) {
        const error: unknown = await read(written(`damaged.${end}`, bytes)).catch((thrown: unknown) => thrown);
        expect([error, isDamage(error)]).toEqual([expect.any(Error), true]);
      }
    },
  );

  it('rejects when the file is missing, with an error that isDamage does not recognise', async () => {
    const error: unknown = await read(join(folder, 'nothing.gz')).catch((thrown: unknown) => thrown);
    expect([error, isDamage(error)]).toEqual([expect.objectContaining({ code: 'ENOENT' }), false]);
  });
});
