import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { demonstrationPictures } from '../../../src/sessions/training/demonstration-pictures.ts';
import { imageHeader } from '../../../src/files/image-header.ts';
import { RunImages } from '../../../src/files/run-images.ts';
import { demonstrationOf } from '../../../src/trainer/sources/demonstration.ts';

let folder: string;
let store: RunImages;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vf-pictures-'));
  mkdirSync(join(folder, 'pages'));
  store = new RunImages();
});
afterEach(() => rmSync(folder, { recursive: true }));

const picture = (type: 'png' | 'jpeg' | 'webp', width = 56, height = 28) =>
  sharp({ create: { width, height, channels: 3, background: '#336699' } })
    .toFormat(type)
    .toBuffer();
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

function hugeHeader(png: Buffer): Buffer {
  const changed = Buffer.from(png);
  changed.writeUInt32BE(10_000, 16);
  changed.writeUInt32BE(10_000, 20);
  return changed;
}

describe('imageHeader', () => {
  it.each(['png', 'jpeg', 'webp'] as const)('reads the size of a %s', async (type) => {
    expect(imageHeader(await picture(type, 123, 45))).toEqual({ mediaType: `image/${type}`, width: 123, height: 45 });
  });

  it('gives null for anything else and for torn bytes', async () => {
    const whole = await picture('png');
    for (const bytes of [Buffer.alloc(0), Buffer.from('<svg/>'), whole.subarray(0, 20), (await picture('jpeg')).subarray(0, 10), Buffer.alloc(64)])
      expect(imageHeader(bytes)).toBeNull();
  });
});

describe('demonstrationPictures', () => {
  it('finds pictures by path and by digest and keeps them in the store of the run', async () => {
    const [page, crop] = [await picture('jpeg'), await picture('png', 28, 28)];
    writeFileSync(join(folder, 'pages/a_1.jpg'), page);
    writeFileSync(join(folder, `${sha256(crop)}.png`), crop);
    const find = await demonstrationPictures(folder, store);
    expect(await find('pages/a_1.jpg')).toEqual({ sha256: sha256(page), mediaType: 'image/jpeg', width: 56, height: 28 });
    const found = await find(sha256(crop));
    expect(found).toEqual({ sha256: sha256(crop), mediaType: 'image/png', width: 28, height: 28 });
    expect(Buffer.from(await store.get(found)).equals(crop)).toBe(true);
  });

  describe('with the sizes that the model sees', () => {
    const sizes = { unit: 28, minPixels: 28 * 28, maxPixels: 280 * 280 };

    it('keeps the bytes of a picture that the model sees as it is, and any other one in the size at which it is seen', async () => {
      const fitting = await picture('png', 280, 140);
      writeFileSync(join(folder, 'fitting.png'), fitting);
      writeFileSync(join(folder, 'page.jpg'), await picture('jpeg', 1024, 768));
      const find = await demonstrationPictures(folder, store, sizes);
      expect(await find('fitting.png')).toMatchObject({ sha256: sha256(fitting), width: 280, height: 140 });
      const shown = await find('page.jpg');
      expect(shown).toMatchObject({ mediaType: 'image/png', width: 308, height: 224 });
      expect(imageHeader(await store.get(shown))).toEqual({ mediaType: 'image/png', width: 308, height: 224 });
    });

    it('keeps a picture as it is whose tokens are placed already', async () => {
      const page = await picture('jpeg', 1024, 768);
      writeFileSync(join(folder, 'page.jpg'), page);
      const find = await demonstrationPictures(folder, store, sizes);
      await find('page.jpg');
      expect(await find('page.jpg', { isPlaced: true })).toMatchObject({ sha256: sha256(page), width: 1024, height: 768 });
    });

    it('turns a picture upright before it is resized', async () => {
      const turned = await sharp(await picture('jpeg', 100, 200))
        .withMetadata({ orientation: 6 })
        .toBuffer();
      writeFileSync(join(folder, 'turned.jpg'), turned);
      expect(await (await demonstrationPictures(folder, store, sizes))('turned.jpg')).toMatchObject({ width: 196, height: 112 });
    });

    it.each([
      ['torn', (whole: Buffer) => whole.subarray(0, whole.length / 2), /^"x\.png" cannot be decoded: .*$/],
      ['too long', () => picture('png', 2010, 10), /^"x\.png" has 2010 × 10 pixels; one side may be at most 200 times the other$/],
      ['too large', hugeHeader, /^"x\.png" has 10000 × 10000 pixels, more than 50 million$/],
    ])('refuses a picture that is %s, in one line', async (_, spoil, message) => {
      writeFileSync(join(folder, 'x.png'), await spoil(await picture('png', 100, 200)));
      await expect((await demonstrationPictures(folder, store, sizes))('x.png')).rejects.toThrow(message);
    });
  });

  it.each([
    ['that is not there', 'pages/none.jpg', /^"pages\/none\.jpg" is not in the folder of pictures .*; name a path below it, or the SHA-256/],
    ['outside of the folder', '../secret.png', /leads out of the folder of pictures/],
    ['behind a link that leads out', 'link.png', /leads out of the folder of pictures/],
    ['that is SVG under .png', 'fake.png', /is no PNG, JPEG or WebP/],
    ['with other bytes than its name says', 'f'.repeat(64), /has other bytes than its name says/],
  ])('refuses a picture %s', async (_, name, message) => {
    const outside = join(folder, '..', `secret-${process.pid}.png`);
    writeFileSync(outside, await picture('png'));
    writeFileSync(join(folder, 'fake.png'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
    writeFileSync(join(folder, `${'f'.repeat(64)}.png`), await picture('png'));
    symlinkSync(outside, join(folder, 'link.png'));
    const find = await demonstrationPictures(folder, store);
    await expect(find(name === '../secret.png' ? `../secret-${process.pid}.png` : name)).rejects.toThrow(message);
    rmSync(outside);
  });

  it('refuses a folder that is not there', async () => {
    await expect(demonstrationPictures(join(folder, 'none'), store)).rejects.toThrow(/^The folder of pictures sft\.images = .* cannot be read/);
  });
});

describe('demonstrationOf with pictures', () => {
  const row = {
    messages: [
      { role: 'user' as const, content: 'q' },
      { role: 'assistant' as const, content: 'look' },
      { role: 'user' as const, content: [{ text: 'see ' }, { image: 'a.png' }] },
      { role: 'assistant' as const, content: 'done' },
    ],
  };
  /** One token a character; a picture is three tokens of 7. */
  const tokenizer = {
    render: async (messages: readonly { content: unknown }[]) => rendered(messages),
    renderNext: async (_: unknown, next: readonly { content: unknown }[]) => rendered(next),
    encode: async (text: string) => Int32Array.from(text, (c) => c.charCodeAt(0)),
    closingTokenId: 2,
    tokenizerHash: null,
    turnFormat: 'chat' as const,
  };
  const image = { sha256: 'a'.repeat(64), mediaType: 'image/png', width: 84, height: 28 };

  function rendered(messages: readonly { content: unknown }[]) {
    const ids: number[] = [];
    const images: (typeof image & { offset: number; length: number })[] = [];
    for (const { content } of messages)
      for (const part of typeof content === 'string' ? [{ type: 'text', text: content }] : (content as { type: string; text?: string }[])) {
        if (part.type === 'text') ids.push(...Array.from(part.text!, (c) => c.charCodeAt(0)));
        else images.push({ ...image, offset: ids.push(7, 7, 7) - 3, length: 3 });
      }
    return { ids: Int32Array.from(ids), images };
  }

  it('has each picture where its tokens are, and no loss on them', async () => {
    const made = await demonstrationOf({ row, place: 'x:1' }, { ...tokenizer, picture: async () => image });
    const text = [...made.ids].map((id) => (id === 7 ? '#' : id === 2 ? '|' : String.fromCharCode(id))).join('');
    expect(text).toBe('qlook|see ###done|');
    expect(made.images).toEqual([{ ...image, offset: text.indexOf('#'), length: 3 }]);
    expect([...made.targets].map((at) => text[at]).join('')).toBe('look|done|');
  });

  it('names the row and the setting where the folder of pictures is missing', async () => {
    await expect(demonstrationOf({ row, place: 'x:1' }, tokenizer)).rejects.toThrow(
      'x:1: messages[2] shows the picture "a.png"; set sft.images to the folder that holds it',
    );
  });
});
