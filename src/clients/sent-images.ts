import { LRUCache } from 'lru-cache';
import type { PlacedImage } from '../core/message.ts';

/** More images than a server keeps. If an image is forgotten here, its bytes are sent once more. */
const MOST = 2 ** 16;

/** The images that a server has; it forgets them when its memory is full, and says so. */
export class SentImages {
  readonly #known: LRUCache<string, true>;

  /** @param most number of images that are remembered: those used last. @default 2^16 */
  constructor(most = MOST) {
    this.#known = new LRUCache({ max: most });
  }

  has({ sha256 }: PlacedImage): boolean {
    return this.#known.get(sha256) ?? false;
  }

  add(images: readonly PlacedImage[]): void {
    for (const { sha256 } of images) this.#known.set(sha256, true);
  }

  forget(images: readonly PlacedImage[]): void {
    for (const { sha256 } of images) this.#known.delete(sha256);
  }
}
