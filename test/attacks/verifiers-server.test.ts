import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Dealer } from 'zeromq';
import { run, WireClient } from '../server/verifiers/wire-client.ts';
import { loopback, refusingUrl, sendJson, until } from '../transport/loopback.ts';
import { type AttackedProcess, openConnections, peakGrowth, sendRaw, startCommand } from './attacked-process.ts';

const MEBIBYTE = 2 ** 20;
const WORLD = JSON.stringify({ dataset: 'fact-world', corpus: 'fact-world' });
/** That the user of the server has for other things. */
const OTHER_KEYS = { OPENAI_API_KEY: 'sk-of-the-user', PRIME_API_KEY: 'prime-of-the-user' };
/** Of fact-world. */
const ROW = { idx: 0 };

let server: AttackedProcess;
let address: string;
let client: WireClient;
beforeAll(async () => {
  server = startCommand(
    'vf-serve',
    ['verifiers', 'search-r1', '-a', WORLD, '--bind', 'tcp://127.0.0.1:0', '--max-sessions', '4', '--allow-policy-key-var', 'NO_SUCH_API_KEY'],
    {
      env: OTHER_KEYS,
    },
  );
  await Promise.race([until(() => server.stdout.includes('\n')), server.ended]);
  address = server.stdout.trim();
  client = new WireClient(address);
});
afterAll(async () => {
  await client?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** The server goes on serving everybody else. */
async function isWell(): Promise<void> {
  const { reply } = await client.ask('health');
  expect(reply).toEqual({ success: true, error: null });
  expect(server.child.exitCode).toBeNull();
}

const portOf = () => Number(/\d+$/.exec(address)![0]);
const frame = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.constantFrom('run', 'health', 'cancel', 'tasks', '').map((name) => Buffer.from(name)),
);

describe('vf-serve verifiers under attack', () => {
  it('survives {any frames}', async () => {
    await using attacker = new WireClient(address);
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { minLength: 1, maxLength: 6 }), async (frames) => {
        attacker.send(frames);
      }),
      { numRuns: 200 },
    );
    // An id that none of the frames can be, or the answer to one of them would be taken for its own.
    expect((await attacker.ask('health', {}, 'x'.repeat(41))).reply.success).toBe(true);
    await isWell();
  });

  it('answers {any value} as a request with an error, whatever the method', async () => {
    const json = fc.jsonValue({ maxDepth: 4 }).filter((value) => !JSON.stringify(value).includes('__proto__'));
    const field = fc.constantFrom('task_data', 'client', 'model', 'sampling', 'request_id', 'offset', 'limit');
    const request = fc.oneof(
      json,
      fc.tuple(field, json).map(([name, value]) => ({ ...run({ task_data: { example_id: 'no such row' } }), [name]: value })),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('run', 'cancel', 'tasks', 'reset'), request, async (method, value) => {
        const { reply } = await client.ask(method, value);
        expect(typeof reply.success).toBe('boolean');
        expect(reply.success).toBe(reply.error === null);
      }),
      { numRuns: 120 },
    );
    await isWell();
  });

  it.each([
    ['a list that announces four billion items', Buffer.from([0xdd, 0xff, 0xff, 0xff, 0xff])],
    [
      'a hundred thousand nested lists of millions',
      Buffer.concat(Array.from({ length: 100_000 }, () => Buffer.from([0xdd, 0x00, 0x07, 0xa1, 0x20]))),
    ],
    ['sixteen million empty maps', Buffer.concat([Buffer.from([0xdd, 0x01, 0x00, 0x00, 0x00]), Buffer.alloc(2 ** 24, 0x80)])],
    ['lists nested a million deep', Buffer.concat([Buffer.alloc(1_000_000, 0x91), Buffer.from([0xc0])])],
  ])('holds little for %s', async (_, payload) => {
    const grown = await peakGrowth(server, async () => {
      for (let i = 0; i < 3; i++) expect((await client.askBytes('run', payload)).reply.error).toMatch(/^ValueError: /);
    });
    expect(grown).toBeLessThan(250 * MEBIBYTE);
    await isWell();
  });

  it('gives no key to a listener of the client, as a key or in a header', async () => {
    await using listener = await loopback((_, response) => sendJson(response, 404, {}));
    for (const name of Object.keys(OTHER_KEYS)) {
      for (const named of [{ api_key_var: name }, { api_key_var: '', headers_from_env: { 'x-key': name } }]) {
        const { reply } = await client.ask('run', run({ task_data: ROW, client: { base_url: `${listener.url}/v1`, type: 'eval', ...named } }));
        expect(reply.error).toMatch(/^ConfigError: client\.\w+ is "\w+"\. A variable is sent only if/);
      }
    }
    expect(listener.requests).toEqual([]);
    await isWell();
  });

  it('hangs up on a frame that is too large, without reading it', async () => {
    using attacker = closing(new Dealer({ linger: 0, immediate: true }));
    const dropped = new Promise<void>((resolve) => attacker.socket.events.on('disconnect', () => resolve()));
    attacker.socket.connect(address);
    const grown = await peakGrowth(server, async () => {
      await attacker.socket.send(['x', 'run', Buffer.alloc(200 * MEBIBYTE)]);
      await dropped;
    });
    expect(grown).toBeLessThan(100 * MEBIBYTE);
    await isWell();
  });

  it.each([
    ['a message of a hundred thousand frames', () => Array.from({ length: 100_000 }, () => 'x')],
    ['frames of 30 MiB that are too large together', () => Array.from({ length: 5 }, () => Buffer.alloc(30 * MEBIBYTE))],
  ])('hangs up on %s, before libzmq holds them', async (_, frames) => {
    using attacker = closing(new Dealer({ linger: 0, immediate: true, sendHighWaterMark: 0 }));
    const dropped = new Promise<void>((resolve) => attacker.socket.events.on('disconnect', () => resolve()));
    attacker.socket.connect(address);
    const grown = await peakGrowth(server, async () => {
      await attacker.socket.send(frames());
      await dropped;
    });
    expect(grown).toBeLessThan(150 * MEBIBYTE);
    await until(() => server.stderr.includes('A client was disconnected: its message'));
    await isWell();
  });

  it('refuses keys that name the prototype', async () => {
    const payload = Buffer.concat([Buffer.from([0x81, 0xa9]), Buffer.from('__proto__'), encode({ request_id: 'x' })]);
    expect((await client.askBytes('cancel', payload)).reply.error).toMatch(/^ValueError: the payload cannot be decoded/);
    const named = await client.ask('run', run({ task_data: ROW, sampling: { constructor: 1, toString: 2 } }));
    expect(named.reply.success).toBe(true);
    await isWell();
  });

  // Its memory is bounded by the outbox, whose test has a bound that is reached faster.
  it('answers others while a client lists the rows again and again and reads nothing', async () => {
    using attacker = closing(new Dealer({ linger: 0, receiveHighWaterMark: 1 }));
    attacker.socket.connect(address);
    const asked = Promise.withResolvers<void>();
    await using policy = await loopback((_, response) => (asked.resolve(), sendJson(response, 404, {})));
    for (let i = 0; i < 500; i++) await attacker.socket.send([String(i), 'tasks', encode({ limit: 100 })]);
    await attacker.socket.send(['run', 'run', encode(run({ task_data: ROW, client: { base_url: `${policy.url}/v1` } }))]);
    // Everything before it has been answered by then.
    await asked.promise;
    expect((await client.ask('health')).reply.success).toBe(true);
    await isWell();
  });

  it('answers two thousand runs at once of a policy that is down', async () => {
    const dead = `${await refusingUrl()}/v1`;
    const asked = Array.from({ length: 2000 }, () => client.ask('run', run({ task_data: ROW, client: { base_url: dead } })));
    const answered = await Promise.all(asked);
    expect(answered.every(({ reply }) => reply.success && !reply.head!.ok)).toBe(true);
    await isWell();
  });

  it('hangs up on clients without ZeroMQ, and serves in spite of silent connections', async () => {
    for (const bytes of ['GET / HTTP/1.1\r\nhost: x\r\n\r\n', Buffer.alloc(100_000, 0xff), Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3])]) {
      expect(await sendRaw(portOf(), bytes)).not.toContain('HTTP');
    }
    await using _ = await openConnections(portOf(), 200, '\xff');
    await isWell();
  });
});

function closing(socket: Dealer): Disposable & { readonly socket: Dealer } {
  return { socket, [Symbol.dispose]: () => socket.close() };
}
