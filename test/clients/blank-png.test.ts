import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { blankPng } from '../../src/clients/blank-png.ts';

describe('blankPng', () => {
  it.each([
    [1, 1],
    [448, 448],
    [33, 7],
    [4096, 28],
  ])('is read by a decoder as %i × %i black pixels', async (width, height) => {
    const { data, info } = await sharp(blankPng(width, height)).greyscale().raw().toBuffer({ resolveWithObject: true });
    expect([info.width, info.height]).toEqual([width, height]);
    expect(data.every((value) => value === 0)).toBe(true);
  });
});
