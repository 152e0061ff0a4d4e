import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CancelledError, RetrievalError } from '../../../src/core/errors.ts';
import { EmbeddingsClient, parseEmbeddings } from '../../../src/retrieval/dense/embeddings-client.ts';
import { loopback, readText, refusingUrl, sendJson } from '../../transport/loopback.ts';
import { serveEmbeddings, WORDS_MODEL, wordVector } from './served-embeddings.ts';

const signal = new AbortController().signal;
const open = (url: string, options = {}) => EmbeddingsClient.open({ url, model: WORDS_MODEL, baseDelayMs: 1, signal, ...options });
const body = (vectors: readonly unknown[]) => Buffer.from(JSON.stringify({ data: vectors.map((embedding, index) => ({ index, embedding })) }));
const length = (vector: Float32Array) => Math.hypot(...vector);

describe('EmbeddingsClient', () => {
  it.each(['', '/', '/v1', '/v1/', '/v1/embeddings'])('finds the route behind a URL that ends in "%s"', async (end) => {
    await using server = await serveEmbeddings();
    const client = await open(`${server.url}${end}`);
    const [vector] = await client.embed(['the river Zumardle'], signal);
    const expected = wordVector('the river Zumardle');
    expect(vector!.map((value, i) => value - expected[i]! / length(expected)).every((difference) => Math.abs(difference) < 1e-6)).toBe(true);
    expect(client.name).toBe(`${WORDS_MODEL} (${server.url}/v1/embeddings)`);
    await client.close();
  });

  it('divides many texts into requests and keeps their order', async () => {
    await using server = await serveEmbeddings();
    const client = await open(server.url, { batchSize: 3 });
    const texts = Array.from({ length: 8 }, (_, i) => `word${i}`);
    const vectors = await client.embed(texts, signal);
    expect(server.asked.map(({ input }) => input.length)).toEqual([3, 3, 2]);
    for (const [i, text] of texts.entries()) expect(vectors[i]).toEqual((await client.embed([text], signal))[0]);
    await client.close();
  });

  it('asks vLLM alone to cut long texts, and sends neither empty texts nor halves of characters', async () => {
    await using vllm = await serveEmbeddings({ owner: 'vllm' });
    await using other = await serveEmbeddings();
    for (const server of [vllm, other]) {
      const client = await open(server.url);
      await client.embed(['', 'a\ud800'], signal);
      await client.close();
    }
    expect(vllm.asked).toEqual([{ model: WORDS_MODEL, input: [' ', 'a\ufffd'], encoding_format: 'base64', truncate_prompt_tokens: -1 }]);
    expect(other.asked).toEqual([{ model: WORDS_MODEL, input: [' ', 'a\ufffd'], encoding_format: 'base64' }]);
  });

  it('asks for numbers where a server refuses base64, and keeps to them', async () => {
    await using server = await serveEmbeddings({
      before: ({ encoding_format: format }, response) => {
        if (format === 'float') return false;
        sendJson(response, 422, { error: { message: 'encoding_format must be "float"' } });
        return true;
      },
    });
    const client = await open(server.url);
    expect(length((await client.embed(['a'], signal))[0]!)).toBeCloseTo(1, 6);
    await client.embed(['b'], signal);
    expect(server.asked.map(({ encoding_format: format }) => format)).toEqual(['base64', 'float', 'float']);
    await client.close();
  });

  it('repeats a request that failed with 503, and gives up on 400 with the words of the server', async () => {
    let failures = 2;
    await using server = await serveEmbeddings({
      before: ({ input }, response) => {
        if (input[0] === 'long') return (sendJson(response, 400, { error: { message: 'this text has 513 tokens' } }), true);
        if (failures-- <= 0) return false;
        sendJson(response, 503, { error: 'loading' });
        return true;
      },
    });
    const client = await open(server.url);
    expect(await client.embed(['a'], signal)).toHaveLength(1);
    expect(server.asked).toHaveLength(3);
    await expect(client.embed(['long'], signal)).rejects.toThrow(/400 .*513 tokens/);
    expect(server.asked).toHaveLength(4);
    await client.close();
  });

  it('names the models of a server that does not serve the asked one', async () => {
    await using server = await serveEmbeddings({ model: 'e5' });
    await expect(open(server.url)).rejects.toThrow(/does not serve the model "bag-of-words", but e5\. Name one of these\.$/);
  });

  it('takes a server without a list of models at its word', async () => {
    await using server = await loopback(async (request, response) => {
      if (request.method === 'GET') return sendJson(response, 404, {});
      await readText(request);
      sendJson(response, 200, { data: [{ index: 0, embedding: [3, 4] }] });
    });
    const client = await open(server.url);
    expect([...(await client.embed(['a'], signal))[0]!].map((value) => value.toFixed(3))).toEqual(['0.600', '0.800']);
    await client.close();
  });

  it('refuses vectors of another length than before', async () => {
    let dim = 4;
    await using server = await serveEmbeddings({
      before: ({ input }, response) => (sendJson(response, 200, { data: input.map(() => ({ embedding: Array(dim++).fill(1) })) }), true),
    });
    const client = await open(server.url);
    await client.embed(['a'], signal);
    await expect(client.embed(['b'], signal)).rejects.toThrow(/made vectors of 5 numbers now and of 4 before/);
    await client.close();
  });

  it('sends the key and shows it to nobody, even if the server repeats it', async () => {
    const key = 'sk-very-secret';
    await using server = await loopback((request, response) => {
      if (request.method === 'GET') return sendJson(response, 404, {});
      sendJson(response, 401, { error: `wrong key ${request.headers.authorization}` });
    });
    const client = await open(server.url, { headers: { authorization: `Bearer ${key}` } });
    const failure = await client.embed(['a'], signal).catch((error: unknown) => error as Error);
    expect(failure).toBeInstanceOf(RetrievalError);
    expect(String(failure)).toContain('wrong key');
    expect(String(failure)).not.toContain(key);
    await client.close();
  });

  it('says that nobody listens, and stops when it is asked to', async () => {
    await expect(open(await refusingUrl())).rejects.toThrow(/did not answer: .*ECONNREFUSED/);
    await using server = await serveEmbeddings({ before: () => true });
    const client = await open(server.url);
    const stop = new AbortController();
    const embedding = client.embed(['a'], stop.signal);
    stop.abort();
    await expect(embedding).rejects.toThrow(CancelledError);
    await client.close();
  });
});

describe('parseEmbeddings', () => {
  it('puts vectors in the order of their indices', () => {
    const answer = Buffer.from(
      JSON.stringify({
        data: [
          { index: 1, embedding: [0, 2] },
          { index: 0, embedding: [5, 0] },
        ],
      }),
    );
    expect(parseEmbeddings(answer, 2)).toEqual({ ok: true, value: [Float32Array.of(1, 0), Float32Array.of(0, 1)] });
  });

  it('reads base64 of float32 to the same vector as its numbers { any vector but zero }', () => {
    const value = fc.float({ noNaN: true, noDefaultInfinity: true, min: Math.fround(-1e3), max: Math.fround(1e3) });
    fc.assert(
      fc.property(fc.float32Array({ minLength: 1, maxLength: 20, noNaN: true, noDefaultInfinity: true }), value, (raw, extra) => {
        const vector = Float32Array.from([...raw.map((x) => Math.max(-1e3, Math.min(1e3, x)) + 0), extra === 0 ? 1 : extra]);
        const fromText = parseEmbeddings(body([Buffer.from(vector.buffer).toString('base64')]), 1);
        expect(fromText).toEqual(parseEmbeddings(body([[...vector]]), 1));
        expect(fromText.ok && length(fromText.value[0]!)).toBeCloseTo(1, 4);
      }),
    );
  });

  const infinite = Buffer.from(Float32Array.of(1, Infinity).buffer).toString('base64');
  const notANumber = Buffer.from(Float32Array.of(1, NaN).buffer).toString('base64');
  it.each([
    ['no list', Buffer.from('{"object": "list"}'), 'expected {"data"'],
    ['too few', body([]), 'expected 1 vectors, got 0'],
    ['NaN in base64', body([notANumber]), 'not finite'],
    ['infinity in base64', body([infinite]), 'not finite'],
    ['null in place of a number', body([[1, null]]), 'list of numbers'],
    ['zeros', body([[0, 0]]), 'all zeros'],
    ['half a number', body(['AAAA']), 'base64 of float32'],
    ['an empty vector', body([[]]), 'list of numbers'],
    ['a text that is not base64', body(['!']), 'base64 of float32'],
  ])('refuses %s', (_, answer, problem) => {
    expect(parseEmbeddings(answer, 1)).toMatchObject({ ok: false, problem: expect.stringContaining(problem) as string });
  });

  it('refuses an index twice, and vectors of two lengths', () => {
    const twice = Buffer.from(
      JSON.stringify({
        data: [
          { index: 0, embedding: [1] },
          { index: 0, embedding: [1] },
        ],
      }),
    );
    expect(parseEmbeddings(twice, 2)).toMatchObject({ ok: false, problem: expect.stringContaining('every index') as string });
    expect(parseEmbeddings(body([[1], [1, 2]]), 2)).toMatchObject({ ok: false, problem: expect.stringContaining('different lengths') as string });
  });

  it('calls an answer that is cut off unfinished, not wrong', () => {
    expect(parseEmbeddings(body([[1, 2]]).subarray(0, 20), 1)).toMatchObject({ ok: false, isJson: false });
  });
});
