import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { openRetriever, type OpenRetrieverOptions } from '../../src/registry/open-retriever.ts';
import type { Embedder } from '../../src/retrieval/dense/embedder.ts';
import { EmbeddingsClient } from '../../src/retrieval/dense/embeddings-client.ts';
import { OpenSearchRetriever } from '../../src/retrieval/opensearch.ts';
import { QdrantRetriever } from '../../src/retrieval/qdrant.ts';
import type { Retriever } from '../../src/retrieval/retriever.ts';
import { type OpenedRetriever, retrieverContract } from '../contracts/retriever.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';
import { serveEmbeddings, WORDS_MODEL } from './dense/served-embeddings.ts';
import { COLLECTION, serveOpenSearch, serveQdrant } from './index-servers.ts';

const signal = new AbortController().signal;
const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/retrieval/qdrant.json'), 'utf8')) as {
  readonly request: { readonly searches: readonly { readonly query: readonly number[]; readonly limit: number }[] };
  readonly answer: unknown;
};

function closing(retriever: Retriever, ...servers: readonly AsyncDisposable[]): OpenedRetriever {
  return {
    retriever,
    async [Symbol.asyncDispose]() {
      await retriever.close();
      for (const server of servers) await server[Symbol.asyncDispose]();
    },
  };
}

const embedder = (url: string) => EmbeddingsClient.open({ url, model: WORDS_MODEL, signal });

/** Answers every text with the golden's vectors, in order. */
function goldenEmbedder(): Embedder {
  const vectors = golden.request.searches.map(({ query }) => Float32Array.from(query));
  return { name: 'golden', model: 'golden', batchSize: 64, concurrency: 1, embed: () => Promise.resolve(vectors), close: () => Promise.resolve() };
}

describe('QdrantRetriever', () => {
  retrieverContract(
    async () => {
      const [server, embeddings] = await Promise.all([serveQdrant(), serveEmbeddings()]);
      return closing(new QdrantRetriever({ url: server.url, collection: COLLECTION, embedder: await embedder(embeddings.url) }), server, embeddings);
    },
    { isIndex: true, isDense: true },
  );

  it("sends the request that Qdrant's own models accept, and reads the answer that they write", async () => {
    const sent: unknown[] = [];
    await using server = await loopback(async (request, response) => {
      sent.push(JSON.parse(await readText(request)));
      sendJson(response, 200, golden.answer);
    });
    const retriever = new QdrantRetriever({ url: `${server.url}/`, collection: 'wiki', embedder: goldenEmbedder() });
    const found = await retriever.search(['river', 'lake'], { topk: 2, signal });
    expect(server.requests).toEqual(['POST /collections/wiki/points/query/batch']);
    expect(sent).toEqual([golden.request]);
    expect(found.map((list) => list.map(({ id }) => id))).toEqual([
      ['1', '2'],
      ['2', '1'],
    ]);
    expect(found[0]![0]).toEqual({ id: '1', contents: '"Kinzer"\nThe river of Kinzer is Zumardle.', score: expect.closeTo(0.976, 3) as number });
    await retriever.close();
  });

  it('sends its key and puts the prefix before queries', async () => {
    await using server = await serveQdrant({ apiKey: 'qd-secret' });
    await using embeddings = await serveEmbeddings();
    const open = async (apiKey: string) =>
      new QdrantRetriever({ url: server.url, collection: COLLECTION, embedder: await embedder(embeddings.url), queryPrefix: 'query: ', apiKey });
    const retriever = await open('qd-secret');
    expect(await retriever.search(['river Zumardle'], { topk: 1, signal })).toMatchObject([[{ id: '1' }]]);
    expect(embeddings.asked.at(-1)!.input).toEqual(['query: river Zumardle']);
    const other = await open('qd-wrong');
    await expect(other.search(['river'], { topk: 1, signal })).rejects.toThrow(/403 Must provide an API key/);
    await Promise.all([retriever.close(), other.close()]);
  });

  it('refuses payloads without a passage', async () => {
    await using server = await loopback((_, response) =>
      sendJson(response, 200, { result: [{ points: [{ id: 1, score: 1, payload: { name: 'x' } }] }] }),
    );
    const retriever = new QdrantRetriever({ url: server.url, collection: 'wiki', embedder: goldenEmbedder() });
    await expect(retriever.search(['river'], { topk: 1, signal })).rejects.toThrow(/expected the payloads of result\[0\] to hold "contents"/);
    await retriever.close();
  });
});

describe('OpenSearchRetriever', () => {
  describe('by words', () => {
    retrieverContract(
      async () => {
        const server = await serveOpenSearch();
        return closing(new OpenSearchRetriever({ url: server.url, index: COLLECTION }), server);
      },
      { isIndex: true },
    );
  });
  describe('by vectors', () => {
    retrieverContract(
      async () => {
        const [server, embeddings] = await Promise.all([serveOpenSearch(), serveEmbeddings()]);
        return closing(new OpenSearchRetriever({ url: server.url, index: COLLECTION, embedder: await embedder(embeddings.url) }), server, embeddings);
      },
      { isIndex: true, isDense: true },
    );
  });

  it('sends a head and a search for every query, as lines', async () => {
    await using server = await serveOpenSearch();
    const retriever = new OpenSearchRetriever({ url: server.url, index: COLLECTION });
    await retriever.search(['river', 'a\nb'], { topk: 3, signal });
    const search = (query: string) => ({ size: 3, query: { match: { contents: { query } } }, _source: { excludes: ['vector'] } });
    expect(server.bodies[0]).toBe(`{}\n${JSON.stringify(search('river'))}\n{}\n${JSON.stringify(search('a\nb'))}\n`);
    await retriever.close();
  });

  it.each([
    ['a search that failed', { error: { type: 'x', reason: 'no such index [other]' }, status: 404 }, /query 0 failed: "no such index \[other\]"/],
    ['hits of some shards', { _shards: { failed: 1 }, hits: { hits: [] } }, /not answered by all shards/],
    ['a search out of time', { timed_out: true, hits: { hits: [] } }, /not answered by all shards/],
    ['sources without a passage', { hits: { hits: [{ _id: '1', _score: 1, _source: {} }] } }, /to hold "contents"/],
    ['another shape', { found: [] }, /expected responses\[0\]\.hits\.hits to be a list/],
  ])('reports %s, although the status is 200', async (_, answer, message) => {
    await using server = await loopback((__, response) => sendJson(response, 200, { took: 1, responses: [answer] }));
    const retriever = new OpenSearchRetriever({ url: server.url, index: 'wiki' });
    const failure = await retriever.search(['river'], { topk: 1, signal }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RetrievalError);
    expect((failure as Error).message).toMatch(message);
    await retriever.close();
  });
});

describe('openRetriever with the engines qdrant and opensearch', () => {
  it('opens both by their arguments, OpenSearch by words and vectors if a model is named', async () => {
    await using qdrant = await serveQdrant();
    await using openSearch = await serveOpenSearch();
    await using embeddings = await serveEmbeddings();
    const model = { embeddingsUrl: embeddings.url, embeddingsModel: WORDS_MODEL };
    const cases: OpenRetrieverOptions[] = [
      { engine: 'qdrant', retrieverUrl: qdrant.url, ...model },
      { engine: 'qdrant', env: { QDRANT_URL: qdrant.url, EMBEDDINGS_URL: embeddings.url }, embeddingsModel: WORDS_MODEL },
      { engine: 'opensearch', retrieverUrl: openSearch.url },
      { engine: 'opensearch', env: { OPENSEARCH_URL: openSearch.url }, ...model },
    ];
    for (const options of cases) {
      const retriever = await openRetriever({ env: {}, collection: COLLECTION, mustAnswer: true, ...options });
      expect(await retriever.search(['river Zumardle'], { topk: 1, signal })).toMatchObject([[{ id: '1' }]]);
      await retriever.close();
    }
    expect(openSearch.bodies.at(-1)).toContain('"knn"');
  });

  it.each([
    [{ engine: 'qdrant', collection: 'wiki' }, /The engine qdrant needs the URL of its server, for example http:\/\/127\.0\.0\.1:6333/],
    [{ engine: 'opensearch', retrieverUrl: 'http://127.0.0.1:1' }, /needs the name of a collection/],
    [{ engine: 'qdrant', retrieverUrl: 'http://127.0.0.1:1', collection: 'wiki' }, /Set embeddings_model, and embeddings_url or EMBEDDINGS_URL/],
    [{ engine: 'opensearch', retrieverUrl: 'http://127.0.0.1:1', collection: 'wiki', embeddingsUrl: 'http://127.0.0.1:1' }, /Set embeddings_model/],
    [
      { engine: 'bm25', collection: 'wiki' },
      /The engine bm25 does not use a collection\. Leave it out, or use one of the engines qdrant, opensearch\.$/,
    ],
    [{ engine: 'dense', corpus: 'x', queryPrefix: 'query: ' }, /The engine dense does not use a query prefix/],
    [{ engine: 'qdrant', corpus: 'nq-mini', retrieverUrl: 'http://127.0.0.1:1' }, /two sources of passages/],
  ] as const)('refuses %j in one line', async (options, message) => {
    const error = await openRetriever({ env: {}, ...options }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(message);
  });

  it('finds a collection that does not exist before any rollout is played', async () => {
    await using qdrant = await serveQdrant();
    await using openSearch = await serveOpenSearch();
    await using embeddings = await serveEmbeddings();
    const common = { env: {}, collection: 'other', mustAnswer: true };
    const model = { embeddingsUrl: embeddings.url, embeddingsModel: WORDS_MODEL };
    await expect(openRetriever({ ...common, engine: 'qdrant', retrieverUrl: qdrant.url, ...model })).rejects.toThrow(/404 .*doesn't exist/);
    await expect(openRetriever({ ...common, engine: 'opensearch', retrieverUrl: openSearch.url })).rejects.toThrow(/no such index \[other\]/);
  });
});
