/**
 * The pictures that supervised rows name: files of one folder, put into the store of the run. One that the model would resize is put there at the size at which the
 * model sees it, because the trainer resizes none.
 */
import { createHash } from 'node:crypto';
import { readdir, realpath } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { ConfigError, thrownText } from '../../core/errors.ts';
import { type ImageSizes, MAX_ASPECT, MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, smartResize } from '../../core/image-size.ts';
import type { Environment } from '../../core/environment.ts';
import type { ImageRef, ImageStore } from '../../core/message.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { imageHeader } from '../../files/image-header.ts';
import { isInside } from '../../files/is-inside.ts';
import { openRegularFile } from '../../files/regular-file.ts';
import type { DemonstrationTokenizer } from '../../trainer/sources/demonstration.ts';
import { systemText } from '../../files/system-text.ts';

/**
 * Finds a picture by its path in the folder, or by the SHA-256 of its bytes. Rejects with ConfigError if the file is missing, lies outside the folder, or is not a picture.
 * @param sizes the sizes that the model does not change; null to keep every picture as it is
 */
export async function demonstrationPictures(
  folder: string,
  store: ImageStore,
  sizes: ImageSizes | null = null,
): Promise<NonNullable<DemonstrationTokenizer['picture']>> {
  const names = await readdir(folder).catch((cause: Error) => {
    throw new ConfigError(`The folder of pictures sft.images = ${JSON.stringify(folder)} cannot be read: ${systemText(cause)}`, { cause });
  });
  const byDigest = new Map(names.flatMap((name) => (/^[0-9a-f]{64}\./.test(name) ? [[name.slice(0, 64), name] as const] : [])));
  const root = await realpath(folder);
  const known = new Map<string, Promise<ImageRef>>();
  return (name, { isPlaced = false } = {}) => {
    const key = JSON.stringify([name, isPlaced]);
    const reading = { store, sizes: isPlaced ? null : sizes, sha256: byDigest.has(name) ? name : null };
    const found = known.get(key) ?? readPicture(root, byDigest.get(name) ?? name, reading);
    known.set(key, found);
    found.catch(() => known.delete(key));
    return found;
  };
}

/** The pictures of the rows, if they show some. */
export async function picturesOf(
  { sft, environment: { id } }: TrainingConfig,
  { images }: Pick<Environment, 'images'>,
  sizes: ImageSizes | null,
): Promise<Pick<DemonstrationTokenizer, 'picture'>> {
  if (sft.images === null) return {};
  if (images === undefined)
    throw new ConfigError(
      `sft.images is set, but ${id} shows no pictures with these arguments; leave sft.images out, or set arguments with which it shows them`,
    );
  return { picture: await demonstrationPictures(sft.images, images, sizes) };
}

interface Reading {
  readonly store: ImageStore;
  readonly sizes: ImageSizes | null;
  /** Digest of the bytes, if the picture is named by it. */
  readonly sha256: string | null;
}

async function readPicture(root: string, name: string, { store, sizes, sha256 }: Reading): Promise<ImageRef> {
  const path = resolve(root, name);
  const refused = (why: string, cause?: unknown) => new ConfigError(`${JSON.stringify(name.slice(0, 200))} ${why}`, { cause });
  const real = await realpath(path).catch((cause: unknown) => {
    throw refused(`is not in the folder of pictures ${root}; name a path below it, or the SHA-256 of a picture there`, cause);
  });
  if (!isInside(root, path) || !isInside(root, real)) throw refused(`leads out of the folder of pictures ${root}`);
  await using file = await openRegularFile(join(root, relative(root, real)));
  const about = await file.stat();
  if (!about.isFile()) throw refused('is a folder, not a file');
  if (about.size > MAX_IMAGE_BYTES) throw refused(`has ${about.size} bytes, more than a picture of at most ${MAX_IMAGE_BYTES}`);
  const bytes = await file.readFile();
  const header = imageHeader(bytes);
  if (header === null) throw refused('is no PNG, JPEG or WebP');
  if (sha256 !== null && createHash('sha256').update(bytes).digest('hex') !== sha256) throw refused('has other bytes than its name says');
  if (header.width * header.height > MAX_IMAGE_PIXELS)
    throw refused(`has ${header.width} × ${header.height} pixels, more than ${MAX_IMAGE_PIXELS / 1e6} million`);
  const seen = sizes === null ? header : smartResize(header, sizes);
  if (seen === null) throw refused(`has ${header.width} × ${header.height} pixels; one side may be at most ${MAX_ASPECT} times the other`);
  if (sizes === null || (seen.width === header.width && seen.height === header.height)) return store.put(bytes, header);
  const shown = await resized(bytes, sizes).catch((cause: unknown) => {
    throw cause instanceof ConfigError ? cause : refused(`cannot be decoded: ${thrownText(cause).trim().replaceAll(/\s+/g, ' ')}`, cause);
  });
  return store.put(shown.bytes, { mediaType: 'image/png', width: shown.width, height: shown.height });
}

/** The picture upright, in the size in which the model sees it. */
async function resized(bytes: Buffer, sizes: ImageSizes): Promise<{ readonly bytes: Buffer; readonly width: number; readonly height: number }> {
  const { default: sharp } = await import('sharp').catch((cause: unknown) => {
    throw new ConfigError('Pictures that the model would resize need the package sharp. Install it with: npm install sharp@0.35.5', { cause });
  });
  const upright = sharp(bytes, { limitInputPixels: MAX_IMAGE_PIXELS }).autoOrient();
  const { width, height } = smartResize((await upright.metadata()).autoOrient, sizes)!;
  const scaled = upright.resize(width, height, { fit: 'fill' }).flatten({ background: '#ffffff' }).toColourspace('srgb');
  return { bytes: await scaled.png().toBuffer(), width, height };
}
