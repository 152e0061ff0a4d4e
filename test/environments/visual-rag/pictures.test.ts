import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CancelledError } from 'vf-search';
import type { ImageRef, ImageStore } from 'vf-search/environment-kit';
import { Pictures } from 'vf-search/environments/visual-rag';
import { undecodable } from '../../../environments/visual-rag/pictures.ts';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunImages } from '../../../src/files/run-images.ts';
import { until } from '../../transport/loopback.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-pictures-'));
const outside = mkdtempSync(join(tmpdir(), 'vf-outside-'));
afterAll(() => [folder, outside].forEach((path) => rmSync(path, { recursive: true })));

const store: ImageStore = new RunImages();
const { signal } = new AbortController();

/** Red on the left, blue on the right. */
async function halves(width: number, height: number) {
  const left = await sharp({ create: { width: Math.ceil(width / 2), height, channels: 3, background: '#ff0000' } })
    .png()
    .toBuffer();
  return sharp({ create: { width, height, channels: 3, background: '#0000ff' } }).composite([{ input: left, left: 0, top: 0 }]);
}

async function pixel(image: ImageRef, x: number, y: number): Promise<number[]> {
  const { data, info } = await sharp(await store.get(image))
    .raw()
    .toBuffer({ resolveWithObject: true });
  return [...data.subarray((y * info.width + x) * info.channels, (y * info.width + x) * info.channels + 3)];
}

beforeAll(async () => {
  writeFileSync(join(folder, 'page_1.png'), await (await halves(100, 50)).png().toBuffer());
  writeFileSync(join(folder, 'turned_1.jpg'), await (await halves(100, 50)).jpeg({ quality: 100 }).withMetadata({ orientation: 6 }).toBuffer());
  writeFileSync(join(folder, 'cmyk_1.jpg'), await (await halves(100, 50)).toColourspace('cmyk').jpeg({ quality: 100 }).toBuffer());
  writeFileSync(join(folder, 'webp_1.webp'), await (await halves(100, 50)).webp({ lossless: true }).toBuffer());
  writeFileSync(join(folder, 'dot_1.png'), await (await halves(1, 1)).png().toBuffer());
  writeFileSync(join(folder, 'empty_1.png'), '');
  writeFileSync(join(folder, 'svg_1.png'), '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="/etc/passwd"/></svg>');
  writeFileSync(join(folder, 'html_1.png'), '<!doctype html><p>page');
  const whole = await (await halves(100, 50)).png().toBuffer();
  writeFileSync(join(folder, 'torn_1.png'), whole.subarray(0, Math.floor(whole.length * 0.6)));
  writeFileSync(join(folder, 'head_1.png'), whole.subarray(0, 12));
  writeFileSync(join(folder, 'long_1.png'), await (await halves(3000, 10)).png().toBuffer());
  writeFileSync(join(folder, 'huge_1.png'), hugePng(whole));
  mkdirSync(join(folder, 'folder_1.png'));
  writeFileSync(join(outside, 'secret_1.png'), whole);
  symlinkSync(join(outside, 'secret_1.png'), join(folder, 'link_1.png'));
});

/** The header of a picture of 10,000 × 10,000 pixels, its checksum right. */
function hugePng(png: Buffer): Buffer {
  const changed = Buffer.from(png);
  changed.writeUInt32BE(10_000, 16);
  changed.writeUInt32BE(10_000, 20);
  let crc = ~0;
  for (const byte of changed.subarray(12, 29)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  changed.writeUInt32BE(~crc >>> 0, 29);
  return changed;
}

describe('Pictures', () => {
  it('cuts, scales and keeps the picture of a page under the digest of its bytes', async () => {
    const pictures = await Pictures.open(folder, store);
    expect(await pictures.size('page_1', signal)).toEqual({ width: 100, height: 50 });
    const page = await pictures.picture({ page: 'page_1', area: null, size: { width: 200, height: 100 } }, signal);
    expect(page).toMatchObject({ mediaType: 'image/png', width: 200, height: 100 });
    expect([await pixel(page, 10, 10), await pixel(page, 190, 90)]).toEqual([
      [255, 0, 0],
      [0, 0, 255],
    ]);
    const crop = await pictures.picture({ page: 'page_1', area: [60, 0, 100, 50], size: { width: 56, height: 56 } }, signal);
    expect([await pixel(crop, 0, 0), await pixel(crop, 55, 55)]).toEqual([
      [0, 0, 255],
      [0, 0, 255],
    ]);
    expect(await pictures.picture({ page: 'page_1', area: [60, 0, 100, 50], size: { width: 56, height: 56 } }, signal)).toEqual(crop);
    expect(crop.sha256).not.toBe(page.sha256);
  });

  it.each([
    ['turned_1', { width: 50, height: 100 }, [10, 5], [10, 95]],
    ['cmyk_1', { width: 100, height: 50 }, [10, 10], [90, 40]],
    ['webp_1', { width: 100, height: 50 }, [10, 10], [90, 40]],
  ] as const)('shows pictures upright and in RGB {%s}', async (page, size, red, blue) => {
    const pictures = await Pictures.open(folder, store);
    expect(await pictures.size(page, signal)).toEqual(size);
    const shown = await pictures.picture({ page, area: null, size }, signal);
    const [first, second] = [await pixel(shown, red[0], red[1]), await pixel(shown, blue[0], blue[1])];
    expect(first[0]! - first[2]!).toBeGreaterThan(100);
    expect(second[2]! - second[0]!).toBeGreaterThan(30);
  });

  it('shows a picture of one pixel', async () => {
    const pictures = await Pictures.open(folder, store);
    const shown = await pictures.picture({ page: 'dot_1', area: null, size: { width: 448, height: 448 } }, signal);
    expect(await pixel(shown, 447, 447)).toEqual([255, 0, 0]);
  });

  it.each(['png', 'jpeg', 'webp'] as const)(
    'reads the size of a %s that is larger than its header as the decoder does, turned as its orientation says',
    async (format) => {
      const raw = sharp(randomBytes(600 * 400 * 3), { raw: { width: 600, height: 400, channels: 3 } });
      const file = join(folder, `noise_${format}.${format}`);
      await raw
        .toFormat(format, format === 'png' ? {} : { quality: 100 })
        .withMetadata({ orientation: 6 })
        .toFile(file);
      expect(statSync(file).size).toBeGreaterThan(256 * 1024);
      const pictures = await Pictures.open(folder, store);
      expect(await pictures.size(`noise_${format}`, signal)).toEqual({ width: 400, height: 600 });
    },
  );

  it('holds no whole files to learn the sizes of pages', async () => {
    for (let i = 0; i < 8; i++) {
      const file = join(folder, `large_${i}.png`);
      writeFileSync(file, readFileSync(join(folder, 'page_1.png')));
      truncateSync(file, 60 * 2 ** 20);
    }
    const pictures = await Pictures.open(folder, store);
    const before = process.memoryUsage().arrayBuffers;
    let most = before;
    let isDone = false;
    const watching = until(() => {
      most = Math.max(most, process.memoryUsage().arrayBuffers);
      return isDone;
    });
    await Promise.all(Array.from({ length: 8 }, (_, i) => pictures.size(`large_${i}`, signal)));
    most = Math.max(most, process.memoryUsage().arrayBuffers);
    isDone = true;
    await watching;
    expect(most - before).toBeLessThan(30 * 2 ** 20);
  });

  it('decodes eight pictures at once; a caller that leaves ends its own wait alone', async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let active = 0;
    const gated: ImageStore = {
      put: async (bytes, image) => {
        active += 1;
        await gate;
        return store.put(bytes, image);
      },
      get: (image) => store.get(image),
    };
    const pictures = await Pictures.open(folder, gated);
    await pictures.size('page_1', signal);
    const request = (side: number) => ({ page: 'page_1', area: null, size: { width: side, height: side } });
    const leaving = new AbortController();
    const shown = Array.from({ length: 12 }, (_, i) => pictures.picture(request(28 + i), signal));
    const left = pictures.picture(request(28 + 11), leaving.signal);
    const alone = pictures.picture(request(99), leaving.signal);
    await until(() => active >= 8);
    leaving.abort();
    for (const each of [left, alone]) await expect(each).rejects.toThrow(CancelledError);
    // Long enough for others to be decoded.
    const others = await Pictures.open(folder, store);
    for (let i = 0; i < 12; i++) await others.picture(request(200 + i), signal);
    expect(active).toBe(8);
    open();
    expect((await Promise.all(shown)).map(({ width }) => width)).toEqual(Array.from({ length: 12 }, (_, i) => 28 + i));
    expect(active).toBe(12);
  });

  it.each([
    ['empty_1', 'the file is empty'],
    ['svg_1', 'its first bytes are not those of a PNG, JPEG or WebP'],
    ['html_1', 'its first bytes are not those of a PNG, JPEG or WebP'],
    ['head_1', 'it cannot be decoded ('],
    ['torn_1', 'it cannot be decoded'],
    ['long_1', 'it has 3000 × 10 pixels; one side may be at most 200 times the other'],
    ['huge_1', 'it has 10000 × 10000 pixels, more than 50 million'],
    ['folder_1', 'it is not a regular file'],
    ['link_1', 'its name leaves the folder'],
    ['../secret_1', 'its name leaves the folder'],
    ['..', 'its name leaves the folder'],
    ['a\0b', 'its name leaves the folder'],
    ['', 'its name leaves the folder'],
    ['missing_1', 'the folder has no file of that name that ends in .png, .jpg, .jpeg or .webp'],
    ['x'.repeat(5000), 'the folder has no file of that name that ends in .png, .jpg, .jpeg or .webp'],
  ])('refuses a picture that cannot be shown {%j}', async (page, why) => {
    const pictures = await Pictures.open(folder, store);
    const shown = pictures.picture({ page, area: null, size: { width: 28, height: 28 } }, signal);
    await expect(shown).rejects.toThrow(`The picture of page ${JSON.stringify(page.slice(0, 200))} in ${folder} cannot be used: ${why}`);
    const { message } = (await shown.catch((error: unknown) => error)) as Error;
    expect(message).not.toContain('\n');
    // Nothing of what the decoder was to write.
    expect(message).not.toContain('vips2png');
  });

  it.each([
    [
      'vipspng: libpng read error\nvips2png: unable to write to target target\n',
      'it cannot be decoded (vipspng: libpng read error); the file may be incomplete',
    ],
    ['a: one.\nb: two.\n', 'it cannot be decoded (a: one.; b: two); the file may be incomplete'],
    ['vips2png: unable to write to target target', 'it cannot be decoded; the file may be incomplete'],
  ])('says why the decoder failed {%j}', (message, text) => {
    expect(undecodable(new Error(message))).toBe(text);
  });

  it('refuses a folder that does not exist', async () => {
    await expect(Pictures.open(join(folder, 'none'), store)).rejects.toThrow(/^The folder of page pictures .*none does not exist/);
  });
});
