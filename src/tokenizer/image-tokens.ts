/** Images among the tokens of a rendered conversation: one placeholder each in the template's text, as many as the image has squares in the model's context. */
import { ConfigError, PolicyError } from '../core/errors.ts';
import { imageTokens, smartResize } from '../core/image-size.ts';
import type { ImageRef, PlacedImage } from '../core/message.ts';
import type { ImageTokenRules } from './policy-tokenizer.ts';

/** Number of tokens of an image between its opening token and its closing token. Throws ConfigError for an image that the model's image processor refuses. */
export function tokensOfImage(image: ImageRef, rules: ImageTokenRules): number {
  const size = smartResize(image, rules);
  if (size !== null) return imageTokens(size, rules.unit);
  throw new ConfigError(
    `An image of ${image.width} × ${image.height} pixels is too long for the model: one side may be at most 200 times the other.`,
  );
}

/** The ids with as many placeholders as each image has tokens, and the places of the images. Throws PolicyError unless every image has its placeholder. */
export function placeImages(
  ids: readonly number[],
  images: readonly ImageRef[],
  rules: ImageTokenRules,
): { readonly ids: number[]; readonly images: PlacedImage[] } {
  const placed: PlacedImage[] = [];
  const out: number[] = [];
  for (const id of ids) {
    if (id !== rules.pad) {
      out.push(id);
      continue;
    }
    const image = images[placed.length];
    const length = image === undefined ? 0 : tokensOfImage(image, rules);
    if (image !== undefined) placed.push({ ...image, offset: out.length, length });
    for (let i = 0; i < length; i++) out.push(rules.pad);
  }
  const found = ids.filter((id) => id === rules.pad).length;
  if (found === images.length) return { ids: out, images: placed };
  throw new PolicyError(`The chat template wrote ${found} placeholders for ${images.length} images. Serve the model with its own chat template.`);
}
