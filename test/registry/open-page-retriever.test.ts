import { describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { openPageRetriever } from '../../src/registry/open-page-retriever.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { serve } from '../retrieval/served.ts';
import { servePages } from '../retrieval/served-pages.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

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
      /^The search server found no pages: \[POST\] \S+\/find: 404 .*; \[GET\] \S+\/find: 404 .*\. Start it, correct search_url, or name its form with search_form\.$/,
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
