import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { incomingBody, readRest } from '../../src/server/incoming-body.ts';

/** Serves one request after the other with `use`, over one connection of the test's own. */
async function connection(use: (request: IncomingMessage, response: ServerResponse) => Promise<void>) {
  const server = createServer((request, response) => void use(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let heard = '';
  socket.setEncoding('utf8').on('data', (text: string) => (heard += text));
  return {
    socket,
    async heard(count: number): Promise<string> {
      while (heard.split('HTTP/1.1').length <= count) await once(socket, 'data');
      return heard;
    },
    async [Symbol.asyncDispose]() {
      socket.destroy();
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

const HEAD = 'POST / HTTP/1.1\r\nhost: x\r\n';
const NEXT = 'GET /next HTTP/1.1\r\nhost: x\r\n\r\n';

describe('incomingBody', () => {
  it('gives a body as it arrives, and its end', async () => {
    const read: string[] = [];
    const more = Promise.withResolvers<void>();
    await using client = await connection(async (request, response) => {
      const { announced, client: from, open } = incomingBody(request);
      const reader = open()!;
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        read.push(Buffer.from(next.value).toString());
        more.resolve();
      }
      response.end(`${announced} from ${from}`);
    });
    client.socket.write(`${HEAD}content-length: 8\r\n\r\nhero`);
    await more.promise;
    client.socket.write('nice');
    expect(await client.heard(1)).toContain('8 from 127.0.0.1');
    expect(read).toEqual(['hero', 'nice']);
  });

  it.each([
    ['its reader is released', false, 'The body is read no further.'],
    ['its client leaves', true, 'aborted'],
  ])('rejects the read that waits where %s', async (_, leaves, message) => {
    const failure = Promise.withResolvers<Error>();
    const begun = Promise.withResolvers<() => void>();
    await using client = await connection(async (request) => {
      const reader = incomingBody(request).open()!;
      await reader.read();
      const waiting = reader.read();
      begun.resolve(() => reader.releaseLock());
      await waiting.catch(failure.resolve);
    });
    client.socket.write(`${HEAD}content-length: 8\r\n\r\nhero`);
    const release = await begun.promise;
    if (leaves) client.socket.destroy();
    else release();
    expect((await failure.promise).message).toBe(message);
  });
});

describe('readRest', () => {
  const answerEarly = async (request: IncomingMessage, response: ServerResponse) => {
    response.once('close', () => readRest(request));
    if (request.method === 'POST') {
      const reader = incomingBody(request).open()!;
      await reader.read();
      reader.releaseLock();
    }
    response.end(request.url);
  };

  it('makes room for the next request after a body that was read in part', async () => {
    await using client = await connection(answerEarly);
    client.socket.write(`${HEAD}content-length: 1000000\r\n\r\nhero`);
    await client.heard(1);
    client.socket.write('a'.repeat(999_996));
    client.socket.write(NEXT);
    expect(await client.heard(2)).toContain('/next');
  });

  it('closes the connection of a body that does not end', async () => {
    await using client = await connection(answerEarly);
    client.socket.write(`${HEAD}content-length: 1000000\r\n\r\nhero`);
    await client.heard(1);
    if (!client.socket.closed) await once(client.socket, 'close');
    expect(client.socket.closed).toBe(true);
  });
});
