import { statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { rasterize } from '../../../src/reports/plot/rasterize.ts';
import { rewardPlot } from '../../../src/reports/plot/training-plots.ts';
import { trainingRows } from '../../cli/train/training-rows.ts';

const plot = rewardPlot(trainingRows(), { name: 'nano' });
/** Pixels whose colour or opacity differs. */
function differing(a: Uint8Array, b: Uint8Array): number {
  let count = 0;
  for (let i = 0; i < a.length; i += 4) if ([0, 1, 2, 3].some((part) => a[i + part] !== b[i + part])) count += 1;
  return count;
}

describe('rasterize', () => {
  it('gives a PNG of the requested width, in the proportions of the drawing', async () => {
    const { png, width, height } = await rasterize(plot, { width: 400 });
    expect([...png.subarray(0, 8)]).toEqual([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    const header = new DataView(png.buffer, png.byteOffset);
    expect([header.getUint32(16), header.getUint32(20)]).toEqual([400, 210]);
    expect([width, height]).toEqual([400, 210]);
  });

  it('draws on an opaque light ground', async () => {
    const { pixels } = await rasterize(plot, { width: 400 });
    expect([...pixels.subarray(0, 4)]).toEqual([255, 255, 255, 255]);
    expect(differing(pixels, new Uint8Array(pixels.length).fill(255))).toBeGreaterThan(2_000);
  });

  it('writes the labels, with the font of the package', async () => {
    const full = await rasterize(plot, { width: 800 });
    const bare = await rasterize(plot.replaceAll(/<text[^>]*>[^<]*<\/text>/g, ''), { width: 800 });
    expect(differing(full.pixels, bare.pixels)).toBeGreaterThan(2_000);
  });

  it('has a shape of its own for every character that the plots use', async () => {
    const draw = async (char: string) => {
      const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><text x="8" y="30" font-size="24">${char}</text></svg>`;
      return (await rasterize(svg, { width: 40 })).pixels;
    };
    const blank = await draw('');
    const missing = await draw('\u4e00');
    for (const char of ['Δ', '⁻', '⁶', '²', '−', '…', '→', 'π', 'µ', 'ü', '≤', '–', '%', '|']) {
      const shape = await draw(char);
      expect(differing(shape, blank)).toBeGreaterThan(3);
      expect(differing(shape, missing)).toBeGreaterThan(3);
    }
  });

  it('needs little room for its font', () => {
    expect(statSync(new URL('../../../src/reports/plot/dejavu-sans-subset.ttf', import.meta.url)).size).toBeLessThan(60_000);
  });
});
