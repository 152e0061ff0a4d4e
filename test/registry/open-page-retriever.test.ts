import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { openPageRetriever } from '../../src/registry/open-page-retriever.ts';
import type { PagePictures } from '../../src/retrieval/vectors/vector-retriever.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { serve } from '../retrieval/served.ts';
import { servePages } from '../retrieval/served-pages.ts';
import { servePooling } from '../retrieval/vectors/served-pooling.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

/** Pictures whose bytes spell the passages. */
const PICTURES: PagePictures = {
  pages: CONTRACT_PASSAGES.map(({ id }) => id!),
  picture: (page) => Promise.resolve({ bytes: Buffer.from(CONTRACT_PASSAGES.find(({ id }) => id === page)!.contents), mediaType: 'image/png' }),
};
const root = mkdtempSync(join(tmpdir(), 'vf-pages-'));
afterAll(() => rmSync(root, { recursive: true }));

const signal = new AbortController().signal;
const pageName = (imageFile: string) => /([^/]+)\.jpg$/.exec(imageFile)![1]!;

describe('openPageRetriever', () => {
  describe.each(['post', 'get'] as const)('with a server of form %s that it finds out', (form) => {
    retrieverContract(
      async () => {
        const server = await servePages(await openBm25(CONTRACT_PASSAGES), form);
        const retriever = await openPageRetriever({ url: server.url, pageName });
        return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
      },
      { isIndex: false, findsPages: true },
    );
  });

  describe('with vectors of pictures from /pooling', () => {
    retrieverContract(
      async () => {
        const server = await servePooling();
        const retriever = await openPageRetriever({
          url: `${server.url}/pooling`,
          indexFolder: mkdtempSync(join(root, 'index-')),
          pictures: () => Promise.resolve(PICTURES),
        });
        return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
      },
      { isIndex: true, findsPages: true, isDense: true },
    );

    it('keeps the vectors in the cache of the user, and reports how far it is', async () => {
      await using server = await servePooling();
      const env = { XDG_CACHE_HOME: mkdtempSync(join(root, 'cache-')) };
      const done: number[] = [];
      for (const _ of [1, 2]) {
        const onProgress = ({ pages }: { readonly pages: number }) => void done.push(pages);
        await (await openPageRetriever({ url: server.url, form: 'pooling', env, pictures: () => Promise.resolve(PICTURES), onProgress })).close();
      }
      expect(readdirSync(join(env.XDG_CACHE_HOME, 'vf-search/page-vectors'), { recursive: true })).toHaveLength(1 + CONTRACT_PASSAGES.length);
      expect([server.pictures(), done]).toEqual([5, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]]);
    });

    it('says in one line where it cannot keep them, and that it needs pictures', async () => {
      await using server = await servePooling();
      const open = (indexFolder: string) =>
        openPageRetriever({ url: `${server.url}/pooling`, indexFolder, pictures: () => Promise.resolve(PICTURES) });
      await expect(open('/proc/vectors')).rejects.toThrow(
        /^The vectors of pages cannot be kept in \/proc\/vectors: .*Name another folder with search_index\.$/,
      );
      await expect(openPageRetriever({ url: `${server.url}/pooling` })).rejects.toThrow(ConfigError);
    });
  });

  it('asks /retrieve for passages whose ids are pages', async () => {
    await using server = await serve(await openBm25(CONTRACT_PASSAGES));
    const retriever = await openPageRetriever({ url: server.url });
    expect((await retriever.search(['river Zumardle'], { topk: 1, signal }))[0]![0]!.id).toBe('1');
    await retriever.close();
  });

  it('sends the queries of many episodes together and repeats none', async () => {
    await using server = await servePages(await openBm25(CONTRACT_PASSAGES), 'post');
    const retriever = await openPageRetriever({ url: server.url, form: 'post', pageName });
    const queries = Array.from({ length: 40 }, (_, i) => `river ${i % 20}`);
    for (const _ of [1, 2]) await Promise.all(queries.map((query) => retriever.search([query], { topk: 3, signal })));
    // One request finds out whether the server answers; 20 different queries fit into one more.
    expect(server.requests).toEqual(['POST /search', 'POST /search']);
    await retriever.close();
  });

  it('takes a busy server for one that will answer', async () => {
    await using server = await loopback((_, response) => sendJson(response, 503, {}));
    await (await openPageRetriever({ url: `${server.url}/search` })).close();
    expect(server.requests).toEqual(['POST /search']);
  });

  it('says in one line what both forms got, or that nothing listens', async () => {
    await using server = await loopback((_, response) => sendJson(response, 404, { detail: 'Not Found' }));
    await expect(openPageRetriever({ url: `${server.url}/find` })).rejects.toThrow(
      /^The search server did not answer a first query: \[POST\] \S+\/find: 404 .*; \[GET\] \S+\/find: 404 .*\. Start it, correct search_url, or name its form with search_form\.$/,
    );
    const error = await openPageRetriever({ url: `${await refusingUrl()}/search` }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(RetrievalError);
    expect((error as Error).message).toMatch(/ECONNREFUSED/);
  });

  it('does not ask in another form than the named one', async () => {
    await using server = await servePages(await openBm25(CONTRACT_PASSAGES), 'get');
    await expect(openPageRetriever({ url: server.url, form: 'post' })).rejects.toThrow(/405/);
    expect(server.requests).toEqual(['POST /search']);
  });

  it('refuses an unusable URL', async () => {
    await expect(openPageRetriever({ url: 'ftp://x' })).rejects.toThrow(ConfigError);
  });
});
