import fc from 'fast-check';
import { type ImageSizes, MAX_ASPECT, smartResize } from 'vf-search/environment-kit';
import { PageSource, type Size } from 'vf-search/environments/visual-rag';
import { describe, expect, it } from 'vitest';
import { PageViewer } from '../../../environments/visual-rag/page-viewer.ts';

/** As released: Qwen2.5-VL and Qwen3-VL. */
const SERVERS: readonly ImageSizes[] = [
  { unit: 28, minPixels: 3136, maxPixels: 12_845_056 },
  { unit: 32, minPixels: 65_536, maxPixels: 16_777_216 },
];

const { signal } = new AbortController();

function page(width: number, height: number) {
  return { id: 'long_1', width, height, words: [] };
}

function viewer(options: Partial<ConstructorParameters<typeof PageViewer>[0]> = {}) {
  return new PageViewer({ pages: new PageSource({ sidecar: new Map() }), ...options });
}

function aspect({ width, height }: Size): number {
  return Math.max(width, height) / Math.min(width, height);
}

describe('PageViewer', () => {
  it.each([
    [3200, 20],
    [3300, 20],
    [3980, 20],
    [4000, 20],
    [1, 200],
    [5617, 41],
  ])('shows a page of %i × %i pixels: one side is at most 200 times the other', async (width, height) => {
    for (const align of [null, 0, 28])
      for (const sizes of [null, ...SERVERS]) {
        const shown = await viewer({ align }).view(page(width, height), null, { sizes, signal });
        expect(aspect(shown!.size)).toBeLessThanOrEqual(MAX_ASPECT);
      }
  });

  it('shows every page and crop of up to 200 to 1 at a size that the server leaves as it is', async () => {
    const source = fc.integer({ min: 1, max: 3000 }).chain((low) => fc.tuple(fc.constant(low), fc.integer({ min: low, max: 200 * low })));
    await fc.assert(
      fc.asyncProperty(source, fc.boolean(), fc.constantFrom(...SERVERS), async ([low, high], isWide, sizes) => {
        const [width, height] = isWide ? [high, low] : [low, high];
        const size = (await viewer().view(page(1e6, 1e6), [0, 0, width, height], { sizes, signal }))!.size;
        expect(smartResize(size, sizes)).toEqual(size);
        expect(aspect(size)).toBeLessThanOrEqual(MAX_ASPECT);
      }),
      { numRuns: 500, examples: [[[20, 4000], true, SERVERS[0]!]] },
    );
  });

  it('shows no page of which one side is more than 200 times the other', async () => {
    expect(await viewer().view(page(4001, 20), null, { sizes: null, signal })).toBeNull();
    expect(await viewer().view(page(20, 4001), null, { sizes: SERVERS[0]!, signal })).toBeNull();
  });
});
