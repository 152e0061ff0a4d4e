import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../../src/core/errors.ts';
import { parseVectors, PoolingEncoder } from '../../../src/retrieval/vectors/pooling-encoder.ts';
import { loopback, readText, refusingUrl, sendJson } from '../../transport/loopback.ts';
import { asFloat32 } from '../../../src/retrieval/vectors/token-vectors.ts';
import { servePooling } from './served-pooling.ts';

const signal = new AbortController().signal;

interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly request: { readonly messages?: readonly { readonly content: readonly { readonly image_url?: { readonly url: string } }[] }[] } | null;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const { exchanges } = JSON.parse(readFileSync(join(import.meta.dirname, '../../golden/vllm/pooling.json'), 'utf8')) as {
  exchanges: readonly Exchange[];
};
const urls = exchanges.flatMap(({ request }) => request?.messages?.[0]!.content[0]!.image_url!.url ?? []);
const picture = Buffer.from(urls[0]!.replace('data:image/png;base64,', ''), 'base64');

/** Answers with what a real vLLM answered to the same request, and with 418 to any other. */
function replayed() {
  return loopback(async (request, response) => {
    const sent = await readText(request);
    const found = exchanges.find(
      ({ method, path, request: body }) =>
        method === request.method && path === request.url && (sent === '' ? body === null : JSON.stringify(body) === sent),
    );
    if (found === undefined) return sendJson(response, 418, { detail: 'not recorded' });
    response.writeHead(found.status, found.headers).end(Buffer.from(found.body, 'base64'));
  });
}

describe('PoolingEncoder', () => {
  it.each(['float16', 'float32'] as const)('reads the vectors of a real vLLM as %s, of unit length', async (type) => {
    await using server = await replayed();
    const encoder = await PoolingEncoder.open({ url: `${server.url}/pooling`, type, signal });
    const lists = [
      ...(await encoder.encodeTexts(['total revenue in 2019', '苏黎世 Zürich'], signal)),
      await encoder.encodePicture({ bytes: picture, mediaType: 'image/png' }, signal),
    ];
    // 4 tokens of the picture of 64 x 64, its 2 marks, the text next to it and the marks of the turn.
    expect(lists.map(({ rows, dim }) => [rows > 4, dim])).toEqual([
      [true, 32],
      [true, 32],
      [true, 32],
    ]);
    for (const list of lists) {
      const { rows, dim } = list;
      const values = asFloat32(list, new Float32Array(0));
      expect(values.length).toBe(rows * dim);
      for (let row = 0; row < rows; row++) {
        const length = Math.hypot(...values.subarray(row * dim, (row + 1) * dim));
        expect(Math.abs(length - 1)).toBeLessThan(type === 'float16' ? 1e-3 : 1e-6);
      }
    }
    expect(encoder.name).toBe(`colqwen3 (${server.url}/pooling)`);
    await encoder.close();
  });

  it('gives the numbers of float16 and float32 alike, up to the rounding', async () => {
    await using server = await replayed();
    const [half, single] = await Promise.all(
      (['float16', 'float32'] as const).map(async (type) => {
        const encoder = await PoolingEncoder.open({ url: server.url, type, signal });
        const [list] = await encoder.encodeTexts(['total revenue in 2019', '苏黎世 Zürich'], signal);
        await encoder.close();
        return asFloat32(list!, new Float32Array(0));
      }),
    );
    for (const [i, value] of single!.entries()) expect(Math.abs(half![i]! - value)).toBeLessThan(5e-4);
  });

  it('reports what the server says of a torn picture, and asks once', async () => {
    await using server = await replayed();
    const encoder = await PoolingEncoder.open({ url: server.url, signal });
    const torn = encoder.encodePicture({ bytes: picture.subarray(0, 40), mediaType: 'image/png' }, signal);
    await expect(torn).rejects.toThrow(/^\[POST\] \S+\/pooling: 400 .*Failed to load image/);
    expect(server.requests.filter((request) => request === 'POST /pooling')).toHaveLength(1);
    await encoder.close();
  });

  it('finds the routes by the URL of the server, of its /v1 or its /pooling, below a path too', async () => {
    await using server = await servePooling();
    for (const path of ['', '/', '/v1', '/v1/', '/pooling']) {
      const encoder = await PoolingEncoder.open({ url: `${server.url}${path}`, signal });
      await encoder.encodeTexts(['a'], signal);
      await encoder.close();
    }
    expect(new Set(server.requests)).toEqual(new Set(['GET /v1/models', 'POST /pooling']));
  });

  it('names the models where it cannot choose one', async () => {
    await using server = await servePooling({ models: ['a', 'b'] });
    await expect(PoolingEncoder.open({ url: server.url, signal })).rejects.toThrow(
      /serves 2 models \(a, b\)\. Name the one that makes the vectors\.$/,
    );
    await expect(PoolingEncoder.open({ url: server.url, model: 'c', signal })).rejects.toThrow(/does not serve the model "c", but a, b\./);
    const encoder = await PoolingEncoder.open({ url: server.url, model: 'b', signal });
    expect(encoder.identity).toBe('{"model":"b","root":"/models/b","type":"float16"}');
    await encoder.close();
  });

  it('fails where nothing listens, and for an unusable URL', async () => {
    await expect(PoolingEncoder.open({ url: await refusingUrl(), maxRetries: 0, signal })).rejects.toThrow(RetrievalError);
    await expect(PoolingEncoder.open({ url: 'pooling', signal })).rejects.toThrow(ConfigError);
  });
});

describe('parseVectors', () => {
  const floats = (...values: number[]) => Buffer.from(new Float32Array(values).buffer);
  const answer = (data: unknown, body = floats(1, 0, 0, 1)) =>
    parseVectors({ status: 200, headers: { metadata: JSON.stringify({ data }) }, body }, 1, 'float32');
  const item = { index: 0, embed_dtype: 'float32', endianness: 'little', start: 0, end: 16, shape: [2, 2] };

  it('reads the vectors where the header says they are', () => {
    expect(answer([item])).toEqual({ ok: true, value: [{ rows: 2, dim: 2, values: new Float32Array([1, 0, 0, 1]) }] });
  });

  it.each([
    ['a vector for the whole text', [{ ...item, shape: [4] }], /is it a model for token_embed/],
    ['no rows', [{ ...item, end: 0, shape: [0, 2] }], /the shape of item 0 is \[0,2\]/],
    ['a shape of a terabyte', [{ ...item, shape: [2 ** 40, 2] }], /the vectors of item 0 as float32/],
    ['another type', [{ ...item, embed_dtype: 'bfloat16' }], /the vectors of item 0 as float32/],
    ['a place before the body', [{ ...item, start: -16, end: 0 }], /the vectors of item 0 as float32/],
    ['too few items', [], /places of 1 lists/],
    ['no items', 7, /places of 1 lists/],
    ['an index that is missing', [{ ...item, index: 1 }], /places of 1 lists/],
  ])('refuses %s', (_, data, problem) => {
    expect(answer(data)).toMatchObject({ ok: false, isJson: true, problem: expect.stringMatching(problem) });
  });

  it('takes a body that ends early for a torn answer, and refuses numbers that are none', () => {
    expect(answer([item], floats(1, 0))).toMatchObject({ ok: false, isJson: false });
    expect(answer([item], floats(1, NaN, 0, 1))).toMatchObject({ ok: false, problem: expect.stringMatching(/not finite/) });
  });

  it('never throws {any header and body}', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.jsonValue().map((data) => JSON.stringify({ data })),
        ),
        fc.uint8Array({ maxLength: 64 }),
        fc.nat(3),
        (metadata, bytes, count) => {
          const parsed = parseVectors({ status: 200, headers: { metadata }, body: Buffer.from(bytes) }, count, 'float16');
          expect(parsed.ok ? parsed.value.length : count).toBe(count);
        },
      ),
    );
  });
});
