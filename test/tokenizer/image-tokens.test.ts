import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, PolicyError } from '../../src/core/errors.ts';
import { placeImages, tokensOfImage } from '../../src/tokenizer/image-tokens.ts';

const rules = { unit: 28, minPixels: 4 * 784, maxPixels: 1024 * 784, maxPerPrompt: null, start: 7, pad: 8, end: 9 };
const image = (width: number, height: number) => ({ sha256: `${width}x${height}`, mediaType: 'image/png', width, height });

describe('tokensOfImage', () => {
  it.each([
    [112, 84, 12],
    // Rounded to 112 × 84.
    [101, 77, 12],
    // Enlarged to the lowest bound.
    [1, 1, 4],
    // Shrunk to the highest one.
    [4000, 4000, 1024],
  ])('counts %i × %i pixels as %i tokens', (width, height, tokens) => {
    expect(tokensOfImage(image(width, height), rules)).toBe(tokens);
  });

  it('refuses an image that the model’s processor refuses', () => {
    expect(() => tokensOfImage(image(900, 3), rules)).toThrow(ConfigError);
    expect(() => tokensOfImage(image(900, 3), rules)).toThrow('900 × 3');
  });
});

describe('placeImages', () => {
  it('puts the tokens of every image in the place of its placeholder, and keeps all other ids', () => {
    const { ids, images } = placeImages([1, 7, 8, 9, 2, 7, 8, 9], [image(56, 56), image(84, 56)], rules);
    expect(ids).toEqual([1, 7, 8, 8, 8, 8, 9, 2, 7, 8, 8, 8, 8, 8, 8, 9]);
    expect(images).toEqual([
      { ...image(56, 56), offset: 2, length: 4 },
      { ...image(84, 56), offset: 9, length: 6 },
    ]);
  });

  it('places images wherever their placeholders are', () => {
    const side = fc.integer({ min: 1, max: 6 }).map((units) => units * 28);
    const piece = fc.record({
      text: fc.array(fc.integer({ min: 10, max: 99 }), { maxLength: 5 }),
      shown: fc.option(fc.tuple(side, side).map(([width, height]) => image(width, height))),
    });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const all = pieces.flatMap(({ shown }) => shown ?? []);
        const given = pieces.flatMap(({ text, shown }) => [...text, ...(shown === null ? [] : [rules.start, rules.pad, rules.end])]);
        const { ids, images } = placeImages(given, all, rules);
        expect(images.map(({ sha256 }) => sha256)).toEqual(all.map(({ sha256 }) => sha256));
        for (const { offset, length } of images) {
          expect([ids[offset - 1], ids[offset + length]]).toEqual([rules.start, rules.end]);
          expect(ids.slice(offset, offset + length).every((id) => id === rules.pad)).toBe(true);
        }
        expect(ids.filter((id) => id !== rules.pad)).toEqual(given.filter((id) => id !== rules.pad));
      }),
    );
  });

  it.each([
    [[7, 8, 9], []],
    [[1, 2], [image(56, 56)]],
    [[7, 8, 9, 7, 8, 9], [image(56, 56)]],
  ])('refuses ids whose placeholders are not as many as the images', (ids, images) => {
    expect(() => placeImages(ids, images, rules)).toThrow(PolicyError);
    expect(() => placeImages(ids, images, rules)).toThrow(`for ${images.length} images`);
  });
});
