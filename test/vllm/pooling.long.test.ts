/**
 * Pages found by the vectors of their pictures, which a real vLLM makes with a small random ColQwen3.
 * @module-tag long
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPageRetriever, type PagePictures } from 'vf-search/environment-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PoolingEncoder } from '../../src/retrieval/vectors/pooling-encoder.ts';
import { asFloat32, maxSim } from '../../src/retrieval/vectors/token-vectors.ts';
import { serveModel, type ServedModel, serveUnlessGiven } from './serve.ts';
import { PYTHON } from './train-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const { signal } = new AbortController();
const folder = mkdtempSync(join(tmpdir(), 'vf-pooling-'));
const deck = join(ROOT, 'packages/vf-search-models/datasets/deck-mini/pages');
const PAGES: PagePictures = {
  pages: ['deck_1_1', 'deck_1_2', 'deck_2_1'],
  picture: (page) => Promise.resolve({ bytes: readFileSync(join(deck, `${page}.png`)), mediaType: 'image/png' }),
};

let server: ServedModel;
beforeAll(async () => {
  server = await serveUnlessGiven('VLLM_POOLING_BASE_URL', () => {
    const model = join(folder, 'colqwen3');
    execFileSync(PYTHON, [join(ROOT, 'scripts/random-vlm/make.py'), 'colqwen3', model], { stdio: 'ignore' });
    return serveModel(model, {}, ['--runner', 'pooling', '--limit-mm-per-prompt', '{"image": 1, "video": 0}']);
  });
});
afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

describe('openPageRetriever over a real vLLM', () => {
  it('ranks the pages by MaxSim of what the server makes of query and pictures, and keeps their vectors', async () => {
    const queries = ['total revenue', 'who leads the team', 'x'.repeat(50_000), '<|image_pad|> \u0000'];
    const options = { url: server.url, form: 'pooling', indexFolder: join(folder, 'index'), pictures: () => Promise.resolve(PAGES) } as const;
    const encoder = await PoolingEncoder.open({ url: server.url, type: 'float32', signal });
    const asked = await encoder.encodeTexts(queries, signal);
    const shown = await Promise.all(PAGES.pages.map(async (page) => encoder.encodePicture(await PAGES.picture(page), signal)));
    const none = new Float32Array(0);
    const scores = asked.map((query) => shown.map((page) => maxSim(asFloat32(query, none), asFloat32(page, none), query.dim)));
    for (const _ of ['made', 'from disk']) {
      const retriever = await openPageRetriever(options);
      const lists = await retriever.search(queries, { topk: 3, signal });
      for (const [q, list] of lists.entries()) {
        expect(list.map(({ id }) => id!).toSorted()).toEqual(PAGES.pages.toSorted());
        // The retriever's vectors are float16: a token's product is off by less than 1e-3.
        for (const { id, score } of list) expect(Math.abs(score! - scores[q]![PAGES.pages.indexOf(id!)]!)).toBeLessThan(1e-3 * asked[q]!.rows);
      }
      await retriever.close();
    }
    await encoder.close();
  });
});
