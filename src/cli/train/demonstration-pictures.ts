/** The pictures that supervised rows name: files of one folder, put into the store of the run. */
import { createHash } from 'node:crypto';
import { readdir, readFile, realpath } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import type { ImageRef, ImageStore } from '../../core/message.ts';
import { imageHeader } from '../../files/image-header.ts';
import { openRegularFile } from '../../files/regular-file.ts';

/** A picture of a page has a few hundred kilobytes. */
const MOST_BYTES = 64 * 2 ** 20;

/** Finds a picture by its path in the folder, or by the SHA-256 of its bytes. Rejects with ConfigError for one that is not there, climbs out, or is no picture. */
export async function demonstrationPictures(folder: string, store: ImageStore): Promise<(name: string) => Promise<ImageRef>> {
  const names = await readdir(folder).catch((cause: Error) => {
    throw new ConfigError(`The folder of pictures sft.images = ${JSON.stringify(folder)} cannot be read: ${cause.message}`, { cause });
  });
  const byDigest = new Map(names.flatMap((name) => (/^[0-9a-f]{64}\./.test(name) ? [[name.slice(0, 64), name] as const] : [])));
  const root = await realpath(folder);
  const known = new Map<string, Promise<ImageRef>>();
  return (name) => {
    const found = known.get(name) ?? readPicture(root, byDigest.get(name) ?? name, store, byDigest.has(name) ? name : null);
    known.set(name, found);
    found.catch(() => known.delete(name));
    return found;
  };
}

async function readPicture(root: string, name: string, store: ImageStore, sha256: string | null): Promise<ImageRef> {
  const path = resolve(root, name);
  const refused = (why: string, cause?: unknown) => new ConfigError(`${JSON.stringify(name.slice(0, 200))} ${why}`, { cause });
  const isInside = (each: string) => !relative(root, each).startsWith('..') && !isAbsolute(relative(root, each));
  const real = await realpath(path).catch((cause: unknown) => {
    throw refused(`is not in the folder of pictures ${root}; name a path below it, or the SHA-256 of a picture there`, cause);
  });
  if (!isInside(path) || !isInside(real)) throw refused(`leads out of the folder of pictures ${root}`);
  await using file = await openRegularFile(join(root, relative(root, real)));
  const { size } = await file.stat();
  if (size > MOST_BYTES) throw refused(`has ${size} bytes, more than a picture of at most ${MOST_BYTES}`);
  const bytes = await readFile(real);
  const header = imageHeader(bytes);
  if (header === null) throw refused('is no PNG, JPEG or WebP');
  if (sha256 !== null && createHash('sha256').update(bytes).digest('hex') !== sha256) throw refused('has other bytes than its name says');
  return store.put(bytes, header);
}
