import type { ImageRef, ImageStore } from '../../src/core/message.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { paintedPng } from './painted-png.ts';

/** Puts a painted picture into a store. */
function putPainted(store: ImageStore, width: number, height: number, seed: number): Promise<ImageRef> {
  return store.put(paintedPng(width, height, seed), { mediaType: 'image/png', width, height });
}

/** A store in memory with one picture per seed, all of one size. */
export async function paintedStore(
  count: number,
  width: number,
  height: number,
): Promise<{ readonly store: RunImages; readonly images: readonly ImageRef[] }> {
  const store = new RunImages();
  const images = [];
  for (let seed = 0; seed < count; seed++) images.push(await putPainted(store, width, height, seed));
  return { store, images };
}
