import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { paintedPng } from '../images/painted-png.ts';

const size = { width: 8, height: 6 };
const png = { mediaType: 'image/png', ...size };

describe('RunImages', () => {
  let root: string;
  let folder: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'vf-run-images-'));
    folder = join(root, 'images');
  });
  afterEach(() => rmSync(root, { recursive: true }));

  it('names an image by the SHA-256 of its bytes: the same bytes give the same reference and one file', async () => {
    const images = new RunImages();
    await images.keepIn(folder);
    const bytes = paintedPng(8, 6, 1);
    const [first, second] = await Promise.all([images.put(bytes, png), images.put(bytes, png)]);
    expect(first).toEqual({ ...png, sha256: createHash('sha256').update(bytes).digest('hex') });
    expect(second).toEqual(first);
    expect(readdirSync(folder)).toEqual([`${first.sha256}.png`]);
    expect(readFileSync(join(folder, `${first.sha256}.png`))).toEqual(bytes);
  });

  it('keeps images in memory until it has a folder, and writes them then', async () => {
    const images = new RunImages();
    const early = await images.put(paintedPng(8, 6, 1), png);
    expect(Buffer.from(await images.get(early))).toEqual(paintedPng(8, 6, 1));
    expect(readdirSync(root)).toEqual([]);
    await images.keepIn(folder);
    expect(readdirSync(folder)).toEqual([`${early.sha256}.png`]);
    expect(Buffer.from(await images.get(early))).toEqual(paintedPng(8, 6, 1));
  });

  it('holds no bytes of an image once it is written or could not be: a removed file is written again, a missing one is an error', async () => {
    const images = new RunImages();
    await images.keepIn(folder);
    const bytes = paintedPng(8, 6, 1);
    const ref = await images.put(bytes, png);
    rmSync(folder, { recursive: true });
    await expect(images.get(ref)).rejects.toThrow(/cannot be read/);
    writeFileSync(folder, 'a file in the place of the folder');
    await expect(images.put(bytes, png)).rejects.toThrow(/EEXIST/);
    await expect(images.get(ref)).rejects.toThrow(/cannot be read/);
    rmSync(folder);
    await images.put(bytes, png);
    expect(Buffer.from(await images.get(ref))).toEqual(bytes);
  });

  it('makes no folder for a run without images', async () => {
    await new RunImages().keepIn(folder);
    expect(readdirSync(root)).toEqual([]);
  });

  it('reads what an earlier process of the run wrote', async () => {
    const earlier = new RunImages();
    await earlier.keepIn(folder);
    const ref = await earlier.put(paintedPng(8, 6, 1), { mediaType: 'image/webp', ...size });
    const later = new RunImages();
    await later.keepIn(folder);
    expect(Buffer.from(await later.get(ref))).toEqual(paintedPng(8, 6, 1));
  });

  it('rejects a file whose bytes were changed, and names it', async () => {
    const images = new RunImages();
    await images.keepIn(folder);
    const ref = await images.put(paintedPng(8, 6, 1), png);
    const path = join(folder, `${ref.sha256}.png`);
    writeFileSync(path, paintedPng(8, 6, 2));
    await expect(images.get(ref)).rejects.toThrow(ConfigError);
    await expect(images.get(ref)).rejects.toThrow(`${path} was changed`);
  });

  it('rejects a link to other bytes', async () => {
    const images = new RunImages();
    await images.keepIn(folder);
    const ref = await images.put(paintedPng(8, 6, 1), png);
    writeFileSync(join(root, 'secret'), 'secret');
    const other = 'f'.repeat(64);
    symlinkSync(join(root, 'secret'), join(folder, `${other}.png`));
    await expect(images.get({ ...ref, sha256: other })).rejects.toThrow(/was changed/);
  });

  it.each(['../../etc/passwd', `../${'a'.repeat(61)}`, 'A'.repeat(64), `${'a'.repeat(64)}/..`, '', 'a'.repeat(63)])(
    'opens no file for the digest %j',
    async (sha256) => {
      const images = new RunImages();
      await images.keepIn(folder);
      await expect(images.get({ ...png, sha256 })).rejects.toThrow(/is not the SHA-256 of an image/);
    },
  );

  it.each(['image/svg+xml', 'text/html', 'image/png/../../x', '__proto__'])('keeps no file of the type %s', async (mediaType) => {
    const images = new RunImages();
    await expect(images.put(paintedPng(8, 6, 1), { mediaType, ...size })).rejects.toThrow(/are not kept; give image\/png, image\/jpeg, image\/webp/);
  });

  it.each([undefined, 'image/png', { mediaType: 'image/png' }, { ...png, width: 0 }, { ...png, height: 2.5 }])(
    'names what it needs where an image is described by %j',
    async (image) => {
      await expect(new RunImages().put(paintedPng(8, 6, 1), image as typeof png)).rejects.toThrow(
        /^put\(bytes, \{ mediaType, width, height \}\) needs the type of the image and its size in pixels, got \{/,
      );
    },
  );

  it('says of an image that it never got which one it is, with a folder and without', async () => {
    const images = new RunImages();
    const absent = { ...png, sha256: 'a'.repeat(64) };
    await expect(images.get(absent)).rejects.toThrow(absent.sha256);
    await images.keepIn(folder);
    await expect(images.get(absent)).rejects.toThrow(`${absent.sha256}.png cannot be read`);
  });
});
