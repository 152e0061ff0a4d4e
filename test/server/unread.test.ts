import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { Unread, type UnreadOptions } from '../../src/server/unread.ts';
import { until } from '../transport/loopback.ts';

const MEBIBYTE = 2 ** 20;
/** More than the system's buffers of a connection take. */
const LARGE = Buffer.alloc(16 * MEBIBYTE, 'x');

async function served(options: UnreadOptions) {
  const unread = new Unread(options);
  let asked = 0;
  const server = createServer((request, response) => {
    if (!unread.admits(request, response)) return;
    const isLarge = request.url === '/large';
    if (isLarge) asked += 1;
    response.end(isLarge ? LARGE : 'small');
  });
  server.on('connection', (socket) => unread.watch(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    unread,
    url: `http://127.0.0.1:${port}`,
    /** Requests for the large answer. */
    asked: () => asked,
    /** A client that sends and reads nothing until it is asked to. */
    async silent(requests: string): Promise<Socket> {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      socket.pause();
      await once(socket, 'connect');
      socket.write(requests);
      return socket;
    },
    async [Symbol.asyncDispose]() {
      unread.close();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`;

/** Reads to the end, which may be a reset. */
function closed(client: Socket): Promise<void> {
  client.resume();
  return new Promise((done) => client.once('close', () => done()));
}

describe('Unread', () => {
  it('cuts off the clients that leave most unread, and serves others', async () => {
    await using server = await served({ maxBytes: 40 * MEBIBYTE });
    const clients = [];
    for (let i = 0; i < 12; i++) {
      clients.push(await server.silent(get('/large')));
      await until(() => server.asked() === i + 1);
      expect(server.unread.bytes).toBeLessThanOrEqual(40 * MEBIBYTE);
      expect(await (await fetch(`${server.url}/`)).text()).toBe('small');
    }
    expect(server.unread.bytes).toBeGreaterThan(0);
    for (const client of clients) client.destroy();
    await until(() => server.unread.bytes === 0);
  });

  it('counts the answers that wait behind another one', async () => {
    await using server = await served({ maxBytes: 40 * MEBIBYTE });
    const client = await server.silent(get('/large').repeat(10));
    await closed(client);
    expect(client.bytesRead).toBeLessThan(10 * LARGE.length);
  });

  it('ends a connection with more requests than any client leaves unanswered, and answers few of them', async () => {
    await using server = await served({});
    const client = await server.silent(get('/large').repeat(10_000));
    await closed(client);
    expect(server.asked()).toBeLessThanOrEqual(16);
  });

  it('gives up a client that takes nothing, and none that reads slowly', async () => {
    await using server = await served({ stallMs: 1000 });
    const stalled = await server.silent(get('/large'));
    const slow = await server.silent(get('/large'));
    let taken = 0;
    slow.on('data', (chunk: Buffer) => {
      taken += chunk.length;
      slow.pause();
      setTimeout(() => slow.resume(), 5);
    });
    slow.resume();
    await Promise.all([until(() => taken > LARGE.length), until(() => server.unread.bytes === 0)]);
    await closed(stalled);
    expect(stalled.bytesRead).toBeLessThan(LARGE.length);
    slow.destroy();
  });
});
