/**
 * Prompts that hold images, over vLLM's `/inference/v1/generate`: one placeholder for each image on the wire, the images named by their digests. The route answers 200 to
 * fewer images than placeholders and to a wrong length, so that each answer is compared with what was meant.
 */
import type { ImageStore, PlacedImage } from '../../core/message.ts';
import type { LoraGeneration } from '../../schemas/lora-server.ts';

export const GENERATE_PATH = '/inference/v1/generate';

/** Token ids, with the images among them in order. */
export interface ProbedPrompt {
  readonly ids: Int32Array;
  /** @default none */
  readonly images?: readonly PlacedImage[];
}

/** The first `length` tokens; no image may lie across the end. */
export function promptBefore({ ids, images = [] }: ProbedPrompt, length: number): ProbedPrompt {
  return { ids: ids.subarray(0, length), images: images.filter(({ offset }) => offset < length) };
}

/** True if a token is part of an image. */
export function isInImage({ images = [] }: ProbedPrompt, place: number): boolean {
  return images.some(({ offset, length }) => place >= offset && place < offset + length);
}

/** The ids as the route takes them. */
export function compactIds({ ids, images = [] }: ProbedPrompt): number[] {
  const skipped = new Set(images.flatMap(({ offset, length }) => Array.from({ length: length - 1 }, (_, i) => offset + 1 + i)));
  return [...ids].filter((_, i) => !skipped.has(i));
}

/** The parts name the images only: a server that has sampled with an image has it. With `store`, they hold the bytes too. */
export async function imageParts(images: readonly PlacedImage[], store: ImageStore | null): Promise<unknown[]> {
  return Promise.all(
    images.map(async (image) => {
      const bytes = store === null ? null : Buffer.from(await store.get(image)).toString('base64');
      return { type: 'image_url', url: bytes === null ? null : `data:${image.mediaType};base64,${bytes}`, uuid: image.sha256 };
    }),
  );
}

/** The fault in the server's view of a prompt; null if there is none. */
export function seenFault({ ids, images = [] }: ProbedPrompt, { prompt_token_ids: seen, mm_placeholders: places }: LoraGeneration): string | null {
  const found = places?.image ?? [];
  const isPlaced =
    found.length === images.length && found.every(({ offset, length }, i) => offset === images[i]!.offset && length === images[i]!.length);
  if (!isPlaced) {
    const text = (all: readonly { readonly offset: number; readonly length: number }[]) =>
      all.map(({ offset, length }) => `${length} tokens from ${offset}`).join(', ') || 'nowhere';
    return `it placed the images of the probe ${text(found)}, but they were meant to be ${text(images)}`;
  }
  return seen?.length === ids.length && seen.every((id, i) => id === ids[i]) ? null : 'it continued another prompt than it was sent';
}
