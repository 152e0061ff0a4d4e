import type { PlacedImage } from '../core/message.ts';

/** The images that a server has; it forgets them when its memory is full, and says so. */
export class SentImages {
  readonly #known = new Set<string>();

  has({ sha256 }: PlacedImage): boolean {
    return this.#known.has(sha256);
  }

  add(images: readonly PlacedImage[]): void {
    for (const { sha256 } of images) this.#known.add(sha256);
  }

  forget(images: readonly PlacedImage[]): void {
    for (const { sha256 } of images) this.#known.delete(sha256);
  }
}
