import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, RetrievalError } from '../../../src/core/errors.ts';
import type { Passage } from '../../../src/retrieval/retriever.ts';
import { PoolingEncoder } from '../../../src/retrieval/vectors/pooling-encoder.ts';
import { maxSim, vectorsFrom } from '../../../src/retrieval/vectors/token-vectors.ts';
import { VectorFiles } from '../../../src/retrieval/vectors/vector-files.ts';
import { VectorRetriever } from '../../../src/retrieval/vectors/vector-retriever.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../../contracts/retriever.ts';
import { loopback, sendJson, until } from '../../transport/loopback.ts';
import { servePooling } from './served-pooling.ts';

const signal = new AbortController().signal;
const root = mkdtempSync(join(tmpdir(), 'vf-vectors-'));
afterAll(() => rmSync(root, { recursive: true }));
const fresh = () => mkdtempSync(join(root, 'x-'));

/** Pictures whose bytes spell the passages. */
const picturesOf = (passages: readonly Passage[]) => ({
  pages: passages.map(({ id }) => id!),
  picture: (page: string) => Promise.resolve({ bytes: Buffer.from(passages.find(({ id }) => id === page)!.contents), mediaType: 'image/png' }),
});

async function opened(
  url: string,
  {
    folder = fresh(),
    passages = CONTRACT_PASSAGES,
    ...options
  }: { folder?: string; passages?: readonly Passage[]; maxBytes?: number; concurrency?: number; signal?: AbortSignal } = {},
) {
  const encoder = await PoolingEncoder.open({ url, signal, maxRetries: 0 });
  return VectorRetriever.open({ encoder, files: new VectorFiles(folder, encoder.identity), pictures: picturesOf(passages), signal, ...options });
}

describe('VectorRetriever', () => {
  describe.each([
    ['in memory', 2 ** 30],
    ['on disk', 0],
    ['half of them on disk', 20_000],
  ])('with its vectors %s', (_, maxBytes) => {
    retrieverContract(
      async () => {
        const server = await servePooling();
        const retriever = await opened(server.url, { maxBytes });
        return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
      },
      { isIndex: true, findsPages: true, isDense: true },
    );
  });

  it('scores as many shared words as there are, and keeps the order of the pages among equals', async () => {
    await using server = await servePooling();
    const retriever = await opened(server.url);
    const [list] = await retriever.search(['the river'], { topk: 10, signal });
    // "the" stands in all passages but the last one, "river" in the second.
    expect(list).toEqual(
      [
        ['1', 2],
        ['0', 1],
        ['2', 1],
        ['3', 1],
        ['4', 0],
      ].map(([id, score]) => ({ id, contents: id, score })),
    );
    await retriever.close();
  });

  it('sends every picture once for all runs, pages with one picture too', async () => {
    await using server = await servePooling();
    const folder = fresh();
    const twice = [...CONTRACT_PASSAGES, { ...CONTRACT_PASSAGES[0]!, id: 'copy' }];
    for (const passages of [twice, twice, [...twice, { id: '9', contents: 'another' }]])
      await (await opened(server.url, { folder, passages })).close();
    expect(server.pictures()).toBe(6);
  });

  it('makes vectors again for another model', async () => {
    await using server = await servePooling();
    await using other = await servePooling({ models: ['others'] });
    const folder = fresh();
    for (const { url } of [server, other, server]) await (await opened(url, { folder })).close();
    expect([server.pictures(), other.pictures(), readdirSync(folder).length]).toEqual([5, 5, 2]);
  });

  it('makes vectors again where a file is torn, empty or no longer holds numbers', async () => {
    await using server = await servePooling();
    const folder = fresh();
    await (await opened(server.url, { folder })).close();
    const [model] = readdirSync(folder);
    const files = readdirSync(join(folder, model!)).map((name) => join(folder, model!, name));
    const whole = files.map((file) => readFileSync(file));
    truncateSync(files[0]!, 100);
    writeFileSync(files[1]!, '');
    // 0xffff is NaN.
    writeFileSync(files[2]!, Buffer.concat([whole[2]!.subarray(0, -2), Buffer.from([0xff, 0xff])]));
    await (await opened(server.url, { folder })).close();
    expect(server.pictures()).toBe(5 + 3);
    expect(files.map((file) => readFileSync(file))).toEqual(whole);
  });

  it('keeps what it has made when a picture fails, and names its page', async () => {
    const folder = fresh();
    let asked = 0;
    await using server = await servePooling();
    await using failing = await loopback(async (request, response) => {
      const isPicture = request.url === '/pooling' && ++asked > 2;
      if (isPicture) return sendJson(response, 400, { error: { message: 'Failed to load image' } });
      const body: Buffer[] = [];
      for await (const chunk of request) body.push(chunk as Buffer);
      const answer = await fetch(`${server.url}${request.url}`, request.method === 'GET' ? {} : { method: 'POST', body: Buffer.concat(body) });
      response.writeHead(200, { metadata: answer.headers.get('metadata') ?? '' }).end(Buffer.from(await answer.arrayBuffer()));
    });
    await expect(opened(failing.url, { folder, concurrency: 1 })).rejects.toThrow(
      /^The picture of the page "2" has no vectors: \[POST\] .* 400 .*Failed to load image/,
    );
    await (await opened(server.url, { folder })).close();
    expect(server.pictures()).toBe(5);
  });

  it('stops with the first picture that fails: the one on its way is given up, and no other is read', async () => {
    await using server = await servePooling();
    let left = 0;
    const { promise: second, resolve: secondCame } = Promise.withResolvers<void>();
    let asked = 0;
    await using failing = await loopback(async (request, response) => {
      if (request.url !== '/pooling') return sendJson(response, 200, { data: [{ id: 'words' }] });
      asked += 1;
      if (asked === 1) {
        await second;
        return sendJson(response, 400, { error: { message: 'Failed to load image' } });
      }
      // Never answered.
      response.on('close', () => (left += 1));
      secondCame();
    });
    const read: string[] = [];
    const source = picturesOf(CONTRACT_PASSAGES);
    const pictures = { ...source, picture: (page: string) => (read.push(page), source.picture(page)) };
    const encoder = await PoolingEncoder.open({ url: failing.url, signal, maxRetries: 0 });
    const opening = VectorRetriever.open({ encoder, files: new VectorFiles(fresh(), encoder.identity), pictures, signal, concurrency: 2 });
    await expect(opening).rejects.toThrow(/^The picture of the page "\d" has no vectors: \[POST\] .* 400 .*Failed to load image/);
    // Long enough for another run to read all of its pages.
    await (await opened(server.url)).close();
    expect(read).toHaveLength(2);
    await until(() => left === 1);
    await encoder.close();
  });

  it('refuses to search no pages, and stops when its caller does', async () => {
    await using server = await servePooling();
    await expect(opened(server.url, { passages: [] })).rejects.toThrow(ConfigError);
    await expect(opened(server.url, { signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
  });

  it('refuses the vectors of a model of another length', async () => {
    let dim = 2;
    await using server = await loopback((request, response) => {
      if (request.url === '/v1/models') return sendJson(response, 200, { data: [{ id: 'm' }] });
      const data = [{ index: 0, embed_dtype: 'float16', start: 0, end: 2 * dim, shape: [1, dim] }];
      response.writeHead(200, { metadata: JSON.stringify({ data }) }).end(Buffer.alloc(2 * dim));
    });
    const retriever = await opened(server.url, { passages: CONTRACT_PASSAGES.slice(0, 1) });
    dim = 3;
    await expect(retriever.search(['a'], { topk: 1, signal })).rejects.toThrow(/made vectors of 3 numbers for a query, and of 2 for the pages/);
    await expect(opened(server.url).then(() => (dim = 4))).resolves.toBe(4);
    await retriever.close();
  });

  it('holds no vectors beyond its bound while it makes them: a picture that comes again is read from its file, not made again', async () => {
    await using server = await servePooling();
    const encoder = await PoolingEncoder.open({ url: server.url, signal, maxRetries: 0 });
    const found: boolean[] = [];
    class Watched extends VectorFiles {
      override async read(sha256: string) {
        const vectors = await super.read(sha256);
        found.push(vectors !== null);
        return vectors;
      }
    }
    const pictures = picturesOf(['a', 'b', 'c'].map((id) => ({ id, contents: 'one picture' })));
    const retriever = await VectorRetriever.open({ encoder, files: new Watched(fresh(), 'x'), pictures, maxBytes: 0, concurrency: 1, signal });
    expect(found).toEqual([false, true, true]);
    await retriever.close();
  });

  it('says that vectors are gone which were on disk', async () => {
    await using server = await servePooling();
    const folder = fresh();
    const retriever = await opened(server.url, { folder, maxBytes: 0 });
    rmSync(folder, { recursive: true });
    await expect(retriever.search(['river'], { topk: 1, signal })).rejects.toThrow(RetrievalError);
    await retriever.close();
  });
});

describe('maxSim', () => {
  it('is the sum of the largest products { any vectors }', () => {
    const number = fc.float({ min: -1, max: 1, noNaN: true });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }).chain((dim) => {
          const list = fc.array(fc.array(number, { minLength: dim, maxLength: dim }), { minLength: 1, maxLength: 6 });
          return fc.tuple(fc.constant(dim), list, list);
        }),
        ([dim, query, page]) => {
          const product = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
          const expected = query.reduce((sum, q) => sum + Math.max(...page.map((p) => product(q, p))), 0);
          expect(maxSim(new Float32Array(query.flat()), new Float32Array(page.flat()), dim)).toBeCloseTo(expected, 9);
        },
      ),
    );
  });
});

describe('vectorsFrom', () => {
  it('reads bytes that are not aligned', () => {
    const bytes = new Uint8Array([0, ...new Uint8Array(new Float32Array([1, 2]).buffer)]).subarray(1);
    expect(vectorsFrom(bytes, { rows: 1, dim: 2, type: 'float32' })?.values).toEqual(new Float32Array([1, 2]));
  });
});
