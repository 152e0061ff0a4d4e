/** OpenEnv's WebSocket of `vf-serve environment`: what is no WebSocket, too much of one, and the sessions of others. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenEnvClient, openEnvClient } from '../server/environment/openenv-client.ts';
import { until } from '../transport/loopback.ts';
import { type AttackedServer, peakGrowth, sendRaw, startServer } from './attacked-process.ts';

const MEBIBYTE = 2 ** 20;
const BOUND_BYTES = 200 * MEBIBYTE;
const KEY = 'an-api-key-for-tests';
const headers = { authorization: `Bearer ${KEY}` };
const SESSIONS = 32;

let server: AttackedServer;
/** An action that answers the question of the row rightly. */
let right: string;
beforeAll(async () => {
  const args = ['environment', 'search-r1', '-a', '{"dataset": "fact-world", "corpus": "fact-world"}', '--max-sessions', String(SESSIONS)];
  server = await startServer([...args, '--api-key-var', 'TEST_KEY'], { env: { TEST_KEY: KEY } });
  const page = await fetch(`${server.url}/v1/tasks?limit=1`, { headers });
  const { tasks } = (await page.json()) as { tasks: readonly [{ readonly example_id: string; readonly answer: string }] };
  right = `<answer> ${tasks[0].answer} </answer>`;
});
afterAll(() => server[Symbol.asyncDispose]());

const open = () => openEnvClient(server.url, { headers });

async function health(): Promise<{ readonly episodes: number }> {
  return (await (await fetch(`${server.url}/health`)).json()) as { episodes: number };
}

/** A good session still plays, and nothing of the attack is left. */
async function expectWell(): Promise<void> {
  await until(async () => (await health()).episodes === 0);
  await using client = await open();
  expect((await client.reset({ example_id: 'fw_211_mayor_h' })).type).toBe('observation');
  expect((await client.step(right)).data).toMatchObject({ done: true, reward: 1 });
}

const requestOf = (changes: Readonly<Record<string, string | null>> = {}): string => {
  const sent = {
    host: '127.0.0.1',
    authorization: `Bearer ${KEY}`,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    ...changes,
  };
  const lines = Object.entries(sent).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
  return ['GET /ws HTTP/1.1', ...lines, '', ''].join('\r\n');
};

/** A socket that was opened and whose frames are sent as bytes. */
async function openRaw(): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(requestOf());
  const [answer] = (await once(socket, 'data')) as [Buffer];
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1.1 101 /);
  return socket;
}

/** A masked frame with a mask of zeros. `length` may promise more than there is. */
function frame(opcode: number, payload: Buffer, { final = true, length = payload.length } = {}): Buffer {
  const first = (final ? 0x80 : 0) | opcode;
  if (length < 126) return Buffer.concat([Buffer.from([first, 0x80 | length, 0, 0, 0, 0]), payload]);
  const head = Buffer.alloc(14);
  head[0] = first;
  head[1] = 0x80 | 127;
  head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

describe('WS /ws under attack', () => {
  it('opens for no other host, no web page, nobody without the key, and for nothing that is no WebSocket', async () => {
    for (const [changes, status] of [
      [{ host: 'evil.example' }, 403],
      [{ host: null }, 403],
      [{ origin: 'https://evil.example' }, 403],
      [{ origin: 'file://' }, 403],
      [{ authorization: null }, 401],
      [{ authorization: 'Bearer x' }, 401],
      [{ authorization: `Basic ${KEY}` }, 401],
      [{ 'sec-websocket-key': null }, 400],
      [{ 'sec-websocket-key': 'short' }, 400],
      [{ 'sec-websocket-version': '99' }, 400],
    ] as const) {
      expect([changes, (await sendRaw(server.port, requestOf(changes))).split(' ', 2)]).toEqual([changes, ['HTTP/1.1', String(status)]]);
    }
    expect(await sendRaw(server.port, requestOf({ upgrade: 'h2c', connection: 'Upgrade, close' }))).toMatch(/^HTTP\/1.1 404 /);
    await expectWell();
  });

  it('withstands any bytes after the handshake', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 200 }), async (bytes) => {
        const answer = await sendRaw(server.port, Buffer.concat([Buffer.from(requestOf()), bytes]));
        expect(answer).toMatch(/^HTTP\/1.1 101 /);
      }),
      { numRuns: 100 },
    );
    await expectWell();
  });

  it('withstands any frames, well-formed or not', async () => {
    const one = fc.record({
      opcode: fc.integer({ min: 0, max: 15 }),
      payload: fc.oneof(fc.uint8Array({ maxLength: 50 }), fc.json(), fc.constantFrom('{"type":"reset"}', '{"type":"step","data":{"text":"x"}}')),
      final: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(one, { minLength: 1, maxLength: 6 }), async (frames) => {
        const bytes = frames.map(({ opcode, payload, final }) => frame(opcode, Buffer.from(payload as string), { final }));
        const answer = await sendRaw(server.port, Buffer.concat([Buffer.from(requestOf()), ...bytes]));
        expect(answer).toMatch(/^HTTP\/1.1 101 /);
      }),
      { numRuns: 100 },
    );
    await expectWell();
  });

  it('holds no more than its limit of a frame that promises or brings more', async () => {
    const growth = await peakGrowth(server, async () => {
      for (const length of [MEBIBYTE + 1, 2 ** 40, Number.MAX_SAFE_INTEGER]) {
        const socket = await openRaw();
        socket.write(frame(1, Buffer.from('x'), { length }));
        // The close frame with 1009.
        const [answer] = (await once(socket, 'data')) as [Buffer];
        expect([answer[0], answer.readUInt16BE(2)]).toEqual([0x88, 1009]);
        socket.destroy();
      }
      for (let i = 0; i < 8; i++) {
        const socket = await openRaw();
        const part = Buffer.alloc(MEBIBYTE / 2, 120);
        socket.write(frame(1, part, { final: false }));
        for (let n = 0; n < 64 && !socket.destroyed; n++) socket.write(frame(0, part, { final: false }));
        const [answer] = (await once(socket, 'data')) as [Buffer];
        expect(answer.readUInt16BE(2)).toBe(1009);
        socket.destroy();
      }
    });
    expect(growth).toBeLessThan(BOUND_BYTES);
    await expectWell();
  });

  it.each([
    ['frames', frame(1, Buffer.from('{"type": "state"}'))],
    ['large frames', frame(1, Buffer.from(JSON.stringify({ type: 'step', data: { text: 'x'.repeat(MEBIBYTE / 2) } })))],
    ['fragments', frame(0, Buffer.from('x'), { final: false })],
    ['pings', frame(9, Buffer.alloc(125, 120))],
  ])('bounds what it holds for a client that sends %s and reads nothing', async (_, bytes) => {
    const many = Buffer.concat(Array.from({ length: Math.ceil((4 * MEBIBYTE) / bytes.length) }, () => bytes));
    const growth = await peakGrowth(server, async () => {
      const socket = await openRaw();
      socket.pause();
      const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
      // What the server refuses to take counts as sent, once it has cut the connection.
      for (let i = 0; i < 60 && !socket.destroyed; i++) {
        if (!socket.write(many)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), ended]);
      }
      socket.destroy();
      await ended;
    });
    expect(growth).toBeLessThan(BOUND_BYTES);
    await expectWell();
  });

  it('keeps sessions apart: nobody acts in an episode whose id is another session’s', async () => {
    await using one = await open();
    await using other = await open();
    const { data } = await one.reset({ example_id: 'fw_211_mayor_h', episode_id: 'mine' });
    await other.reset({ example_id: 'fw_211_emblem_h', episode_id: 'mine' });
    await other.step('<search> x </search>');
    expect((await one.ask({ type: 'state' })).data).toMatchObject({ step_count: 0, example_id: 'fw_211_mayor_h' });
    for (const id of ['mine', data.metadata.episode_id]) {
      const body = JSON.stringify({ action: { text: 'x' }, episode_id: id });
      const answer = await fetch(`${server.url}/step`, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body });
      expect(answer.status).toBe(404);
    }
    expect((await one.step(right)).data.reward).toBe(1);
  });

  it('tells the episodes of many sessions apart, however their frames interleave', async () => {
    const rows = ['fw_211_mayor_h', 'fw_211_emblem_h'];
    const clients = await Promise.all(Array.from({ length: SESSIONS }, open));
    await Promise.all(
      clients.map(async (client, i) => {
        for (let turn = 0; turn < 3; turn++) {
          const { data } = await client.reset({ example_id: rows[(i + turn) % 2], episode_id: `${i}/${turn}` });
          expect(data.metadata).toMatchObject({ example_id: rows[(i + turn) % 2], episode_id: `${i}/${turn}` });
          const searched = await client.step(`<search> number ${i} </search>`);
          expect(searched.data.metadata.episode_id).toBe(`${i}/${turn}`);
        }
      }),
    );
    for (const client of clients) client.socket.terminate();
    await expectWell();
  });

  it('holds no more sessions than its limit, and frees each that ends, however it ends', async () => {
    const clients: OpenEnvClient[] = [];
    for (let i = 0; i < SESSIONS; i++) clients.push(await open());
    await Promise.all(clients.map((client) => client.reset()));
    const more = await Promise.allSettled(Array.from({ length: 100 }, open));
    const waiting = more.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    expect(waiting).toHaveLength(64);
    const refused = more.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
    expect(new Set(refused)).toEqual(new Set(['Error: Unexpected server response: 503']));
    const answers = await Promise.all(waiting.map((client) => client.reset()));
    expect(new Set(answers.map(({ data }) => data.code))).toEqual(new Set(['CAPACITY_REACHED']));
    expect(await Promise.all(waiting.map(({ closed }) => closed))).toEqual(waiting.map(() => 1013));
    for (const [i, client] of clients.entries()) {
      if (i % 3 === 0) client.send({ type: 'close' });
      else if (i % 3 === 1) client.socket.terminate();
      else client.send(Buffer.alloc(2 * MEBIBYTE));
    }
    await Promise.all(clients.map(({ closed }) => closed));
    await expectWell();
  });

  it('shows its key in no answer and no line', () => {
    expect(server.stdout + server.stderr).not.toContain(KEY);
  });
});
