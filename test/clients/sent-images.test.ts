import { describe, expect, it } from 'vitest';
import { SentImages } from '../../src/clients/sent-images.ts';

const image = (sha256: string, offset = 0) => ({ sha256, mediaType: 'image/png', width: 28, height: 28, offset, length: 1 });

describe('SentImages', () => {
  it('knows an image by its bytes alone, until it is forgotten', () => {
    const sent = new SentImages();
    expect(sent.has(image('a'))).toBe(false);
    sent.add([image('a'), image('b')]);
    expect([sent.has(image('a', 9)), sent.has(image('b')), sent.has(image('c'))]).toEqual([true, true, false]);
    sent.forget([image('a')]);
    expect([sent.has(image('a')), sent.has(image('b'))]).toEqual([false, true]);
  });

  it('remembers as many images as it may, those that were asked for last', () => {
    const sent = new SentImages(2);
    sent.add([image('a'), image('b')]);
    expect(sent.has(image('a'))).toBe(true);
    sent.add([image('c')]);
    expect(['a', 'b', 'c'].map((sha256) => sent.has(image(sha256)))).toEqual([true, false, true]);
  });
});
