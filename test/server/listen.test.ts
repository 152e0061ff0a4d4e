import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { HttpRetriever } from '../../src/retrieval/http-retriever.ts';
import { isLoopback, listen } from '../../src/server/listen.ts';
import { retrievalApp } from '../../src/server/retrieval-app.ts';
import { CONTRACT_PASSAGES } from '../contracts/retriever.ts';
import { serve } from '../retrieval/served.ts';
import { WordRetriever } from '../retrieval/word-retriever.ts';
import { until } from '../transport/loopback.ts';

const signal = new AbortController().signal;
const headers = { 'content-type': 'application/json' };
const ask = (origin: string, init: RequestInit = {}) =>
  fetch(`${origin}/retrieve`, { method: 'POST', headers, body: '{"queries": ["mayor"]}', ...init });

describe('listen', () => {
  it('says which port it was given and refuses one that is taken', async () => {
    const app = retrievalApp({ retriever: new WordRetriever(CONTRACT_PASSAGES) });
    const server = await listen(app, { host: '127.0.0.1', port: 0 });
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const port = Number(new URL(server.url).port);
    await expect(listen(app, { host: '127.0.0.1', port })).rejects.toThrow(
      new ConfigError(`Port ${port} on 127.0.0.1 is in use; choose another one (--port 0 picks a free one)`),
    );
    await server.close({ graceMs: 0 });
    const again = await listen(app, { host: '127.0.0.1', port });
    await again.close({ graceMs: 0 });
    await expect(listen(app, { host: '192.0.2.1', port: 0 })).rejects.toThrow(ConfigError);
  });

  it('finishes requests under way when it closes, and takes no new ones', async () => {
    const gate = Promise.withResolvers<void>();
    const retriever = new WordRetriever(CONTRACT_PASSAGES, () => gate.promise);
    const server = await listen(retrievalApp({ retriever }), { host: '127.0.0.1', port: 0 });
    const answer = ask(server.url);
    await until(() => retriever.asked.length === 1);
    const closed = server.close({ graceMs: 60_000 });
    await expect(ask(server.url)).rejects.toThrow('fetch failed');
    gate.resolve();
    expect((await answer).status).toBe(200);
    await closed;
  });

  it('cuts requests that outlast the grace', async () => {
    const retriever = new WordRetriever(CONTRACT_PASSAGES, () => new Promise(() => {}));
    const server = await listen(retrievalApp({ retriever }), { host: '127.0.0.1', port: 0 });
    const answer = ask(server.url);
    await until(() => retriever.asked.length === 1);
    await Promise.all([expect(answer).rejects.toThrow('fetch failed'), server.close({ graceMs: 10 })]);
    await until(() => retriever.asked[0]!.signal.aborted);
  });

  it('notifies the engine when its client leaves', async () => {
    const retriever = new WordRetriever(CONTRACT_PASSAGES, () => new Promise(() => {}));
    await using server = await serve(retriever);
    const controller = new AbortController();
    const answer = ask(server.origin, { signal: controller.signal });
    await until(() => retriever.asked.length === 1);
    controller.abort();
    await expect(answer).rejects.toThrow('aborted');
    await until(() => retriever.asked[0]!.signal.aborted);
  });

  it('refuses a body beyond its bound over the wire, in chunks and announced, and keeps serving', async () => {
    await using server = await serve(new WordRetriever(CONTRACT_PASSAGES), { maxBodyBytes: 100_000 });
    const chunked = httpRequest(server.url, { method: 'POST', headers });
    chunked.on('error', () => {});
    for (let i = 0; i < 20; i++) chunked.write('x'.repeat(10_000));
    const [response] = (await once(chunked, 'response')) as [{ statusCode: number }];
    expect(response.statusCode).toBe(413);
    chunked.destroy();
    expect((await ask(server.origin, { body: `{"queries": ["${'x'.repeat(200_000)}"]}` })).status).toBe(413);
    expect((await ask(server.origin)).status).toBe(200);
  });

  it('survives bytes that are not HTTP and clients that leave in the middle of a body', async () => {
    await using server = await serve(new WordRetriever(CONTRACT_PASSAGES));
    const { port } = new URL(server.url);
    for (const bytes of [
      '\0\0\0\0\r\n\r\n',
      'GET\r\n\r\n',
      'POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"que',
      'POST /retrieve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    ]) {
      const socket = connect(Number(port), '127.0.0.1');
      socket.on('error', () => {});
      socket.end(bytes);
      socket.resume();
      await once(socket, 'close');
    }
    await until(async () => ((await (await fetch(`${server.origin}/health`)).json()) as { pending: number }).pending === 0);
    expect((await ask(server.origin)).status).toBe(200);
  });

  it('silently closes a connection that never sent a byte, and lets one that began a request continue', async () => {
    const app = retrievalApp({ retriever: new WordRetriever(CONTRACT_PASSAGES) });
    const server = await listen(app, { host: '127.0.0.1', port: 0, silenceMs: 100 });
    const open = async () => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
      const chunks: Buffer[] = [];
      socket.on('data', (chunk) => chunks.push(chunk));
      await once(socket, 'connect');
      return { socket, text: () => Buffer.concat(chunks).toString() };
    };
    const begun = await open();
    begun.socket.write('GET /health HTTP/1.1\r\n');
    const silent = await open();
    await once(silent.socket, 'close');
    expect(silent.text()).toBe('');
    begun.socket.write('host: x\r\n\r\n');
    await until(() => begun.text().startsWith('HTTP/1.1 200 OK'));
    begun.socket.destroy();
    await server.close({ graceMs: 0 });
  });

  it('gives 64 concurrent clients their own answers while others disconnect at random', async () => {
    const corpus = Array.from({ length: 200 }, (_, i) => ({ id: `${i}`, contents: `word${i}` }));
    await using server = await serve(new WordRetriever(corpus, ({ queries }) => delay(queries[0]!.length % 3)));
    const random = Random.fromSeed(7);
    const retriever = new HttpRetriever({ url: server.url, connections: 64 });
    let left = 0;
    const client = async (own: Random) => {
      for (let turn = 0; turn < 6; turn++) {
        const wanted = Array.from({ length: 1 + own.integer(4) }, () => own.integer(200));
        const controller = new AbortController();
        const search = retriever.search(
          wanted.map((i) => `word${i}`),
          { topk: 1, signal: controller.signal },
        );
        if (own.float() < 0.3) setTimeout(() => controller.abort(), own.integer(4));
        const ids = await search.then(
          (lists) => lists.map((list) => Number(list[0]!.id)),
          () => null,
        );
        if (ids === null) left += 1;
        expect(ids ?? wanted).toEqual(wanted);
      }
    };
    await Promise.all(Array.from({ length: 64 }, (_, i) => client(random.fork(i))));
    expect(left).toBeGreaterThan(0);
    await retriever.close();
    await until(async () => ((await (await fetch(`${server.origin}/health`)).json()) as { pending: number }).pending === 0);
  });

  it('answers over a kept-alive connection', async () => {
    await using server = await serve(new WordRetriever(CONTRACT_PASSAGES));
    const retriever = new HttpRetriever({ url: server.url, connections: 1 });
    for (const query of ['river', 'export', 'lake']) expect((await retriever.search([query], { topk: 1, signal }))[0]!.length).toBe(1);
    await retriever.close();
  });
});

describe('isLoopback', () => {
  it.each([
    ['127.0.0.1', true],
    ['127.8.9.1', true],
    ['localhost', true],
    ['::1', true],
    ['0.0.0.0', false],
    ['::', false],
    ['192.168.0.2', false],
    ['127.evil.com', false],
  ])('knows %s: %s', (host, expected) => {
    expect(isLoopback(host)).toBe(expected);
  });
});
