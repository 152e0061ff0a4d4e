import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Dealer, Router } from 'zeromq';
import { ZmtpDoor, type ZmtpDoorOptions } from '../../../src/server/verifiers/zmtp-door.ts';
import { until } from '../../transport/loopback.ts';

const LIMITS = { frames: 4, bytes: 2 ** 20 };
/** What libzmq 4.3 sends first: its greeting, and the command READY of a DEALER. */
const GREETING = Buffer.concat([Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]), Buffer.from('NULL'.padEnd(20, '\0')), Buffer.alloc(32)]);
const READY = Buffer.concat([Buffer.from([4, 28]), Buffer.from('\x05READY\x0bSocket-Type\0\0\0\x06DEALER')]);
const frame = (size: number, { more = true } = {}) =>
  Buffer.concat([Buffer.from([more ? 3 : 2, 0, 0, 0, 0, ...Buffer.from(Uint32Array.of(size).buffer).toReversed()]), Buffer.alloc(size, 'x')]);

async function opened(options: Partial<ZmtpDoorOptions> = {}) {
  const said: string[] = [];
  const door = new ZmtpDoor({ limits: LIMITS, onFailure: ({ message }) => said.push(message), ...options });
  const router = new Router({ linger: 0 });
  await router.bind(`ipc://${door.behind}`);
  const { port } = await door.listen('127.0.0.1', 0);
  const received: number[][] = [];
  const receiving = (async () => {
    for await (const [id, ...frames] of router) {
      received.push(frames.map((each) => each.length));
      await router.send([id!, 'answer']);
    }
  })();
  return {
    door,
    said,
    /** The lengths of the frames of each message that arrived. */
    received,
    port,
    async [Symbol.asyncDispose]() {
      router.close();
      await receiving;
      await door.close(0);
    },
  };
}

/** A client whose handshake is done: libzmq takes no message before. */
async function greeted(port: number, bytes: Buffer) {
  const client = await raw(port, Buffer.concat([GREETING, READY]));
  await until(() => client.socket.bytesRead > 64);
  client.socket.write(bytes);
  return client;
}

async function raw(port: number, bytes: Buffer): Promise<{ readonly socket: Socket; readonly ended: Promise<void> }> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  const ended = new Promise<void>((done) => socket.once('close', () => done()));
  await once(socket, 'connect');
  socket.resume();
  socket.write(bytes);
  return { socket, ended };
}

describe('ZmtpDoor', () => {
  it('passes messages on, of a byte as of all that is allowed, in both directions', async () => {
    await using server = await opened();
    const client = new Dealer({ linger: 0 });
    client.connect(`tcp://127.0.0.1:${server.port}`);
    const sizes = [[1], [0, 0, 0, 0], [3, 0, 200_000, 5], [1, 1, 2 ** 20 - 3 * 64 - 2], [255], [256]];
    for (const message of sizes) {
      await client.send(message.map((size) => Buffer.alloc(size, 'x')));
      expect(String(await client.receive())).toBe('answer');
    }
    expect([server.received, server.said]).toEqual([sizes, []]);
    client.close();
  });

  it.each([
    ['a message without end', [GREETING, READY, ...Array.from({ length: 5 }, () => frame(10))], /more than 4 frames/],
    ['frames that are too large together', [GREETING, READY, frame(600_000), frame(600_000)], /larger than 1 MiB/],
    ['a frame that announces too much', [GREETING, READY, frame(0).fill(0xff, 1)], /larger than 1 MiB/],
    ['a command of a megabyte', [GREETING, Buffer.from([6, 0, 0, 0, 0, 0, 16, 0, 0])], /a command that is too large/],
    ['flags that no frame has', [GREETING, READY, Buffer.from([0xf8])], /not speak ZMTP 3/],
    ['another protocol', [Buffer.from('GET / HTTP/1.1\r\n\r\n')], /does not speak ZMTP 3/],
    ['an older version of the protocol', [GREETING.subarray(0, 10), Buffer.from([1])], /does not speak ZMTP 3/],
  ])('hangs up on %s, and serves others', async (_, parts, reason) => {
    await using server = await opened();
    // Byte by byte as well: what a packet ends in is up to the sender.
    for (const bytes of [Buffer.concat(parts), ...(parts.length < 8 && Buffer.concat(parts).length < 5000 ? [null] : [])]) {
      const { socket, ended } = await raw(server.port, bytes ?? Buffer.alloc(0));
      if (bytes === null) for (const byte of Buffer.concat(parts)) socket.write(Buffer.from([byte]));
      await ended;
    }
    expect(server.said).toEqual([expect.stringMatching(reason)]);
    expect(server.received).toEqual([]);
    const client = new Dealer({ linger: 0 });
    client.connect(`tcp://127.0.0.1:${server.port}`);
    await client.send('x');
    expect(String(await client.receive())).toBe('answer');
    client.close();
  });

  it('ends the connection whose message takes the most when all that have begun are too large together', async () => {
    await using server = await opened({ maxBytes: 2 * 2 ** 20 });
    const small = await greeted(server.port, frame(10));
    const large = await Promise.all([700_000, 800_000, 900_000].map((size) => greeted(server.port, frame(size))));
    await Promise.race(large.map(({ ended }) => ended));
    expect(server.said).toEqual([expect.stringMatching(/take more than 2 MiB together, and its own takes the most/)]);
    small.socket.write(frame(10, { more: false }));
    await until(() => server.received.length > 0);
    expect(server.received).toEqual([[10, 10]]);
    for (const { socket } of large) socket.destroy();
    small.socket.destroy();
  });

  it('ends connections whose message or command does not end in time, however slowly it goes on, and none that sends whole messages', async () => {
    await using server = await opened({ maxMs: 100 });
    const client = new Dealer({ linger: 0 });
    client.connect(`tcp://127.0.0.1:${server.port}`);
    const late = [await greeted(server.port, frame(10)), await greeted(server.port, Buffer.from([4, 100, 1])), await greeted(server.port, frame(10))];
    const trickle = setInterval(() => late[2]!.socket.write(Buffer.from([1, 0])), 30);
    const ended = Promise.all(late.map((each) => each.ended)).then(() => 'ended');
    let asked = Promise.resolve();
    const ask = () => (asked = (async () => (await client.send('x'), expect(String(await client.receive())).toBe('answer')))());
    while ((await Promise.race([ended, ask()])) !== 'ended');
    clearInterval(trickle);
    await asked;
    expect(server.said).toEqual(['A client was disconnected: its message did not end within 0.1 s']);
    client.close();
  });

  it('has the socket behind it where this user alone reaches it, and leaves nothing there', async () => {
    const server = await opened();
    expect(statSync(dirname(server.door.behind)).mode & 0o777).toBe(0o700);
    await server[Symbol.asyncDispose]();
    expect(existsSync(dirname(server.door.behind))).toBe(false);
  });
});
