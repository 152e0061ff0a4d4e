/** All that callers can make `vf-serve environment` hold, against one small account: samples, names, sampling parameters, requests, bodies, frames and parts of frames. */
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Answer, type EnvironmentClient, environmentClient, noPolicies, TalkEnv } from '../server/environment/environment-client.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { openEnvClient } from '../server/environment/openenv-client.ts';
import { until } from '../transport/loopback.ts';

const MEBIBYTE = 2 ** 20;
const HELD = 24 * MEBIBYTE;

let server: EnvironmentClient;
beforeEach(async () => {
  const environment = new TalkEnv({ maxTurns: 50 });
  server = await environmentClient(environment, {
    maxHeldBytes: HELD,
    // Bytes decide alone.
    socketTimes: { messageMs: 3_600_000 },
    policies: { ...noPolicies, open: () => Promise.reject(new PolicyError('No policy server in this test')) },
  });
});
afterEach(() => server[Symbol.asyncDispose]());

const large = (characters: number) => 'a'.repeat(characters);
const beginChat = async (): Promise<Answer> => (await server.begin(['row-1'], 'chat'))[0]!;
const stepWith = (id: string, turn: number, text: string) =>
  server.post('/v1/episodes/step', { episodes: [{ episode_id: id, turn, text, finish_reason: 'stop' }] });
const full = [
  503,
  { error: { type: 'OverloadedError', message: expect.stringMatching(/^The server holds \d+ MiB for its callers, of 24 MiB at most/) } },
];

/** A caller who takes no more room than others left is still served. */
async function expectWell(): Promise<void> {
  const { episode_id: id } = await beginChat();
  const [status, { episodes }] = await stepWith(id, 0, 'done');
  expect([status, episodes[0].done]).toEqual([200, true]);
  expect(server.failures).toEqual([]);
}

describe('what callers make vf-serve environment hold', () => {
  it('refuses a sample of more than a mebibyte, and takes another one for the turn', async () => {
    const { episode_id: id } = await beginChat();
    const [status, { episodes }] = await stepWith(id, 0, large(MEBIBYTE + 1));
    expect([status, episodes[0].error]).toEqual([
      200,
      { type: 'SampleError', message: 'text has 1,048,577 characters. A sample may have at most 1,048,576.', retryable: false },
    ]);
    expect((await stepWith(id, 0, 'hello'))[1].episodes[0]).toMatchObject({ done: false, turn: 1 });
    await expectWell();
  });

  it('refuses the samples of live episodes beyond its limit before it takes any, and takes them once others are gone', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) ids.push((await beginChat()).episode_id);
    const answers = [];
    for (const id of ids) answers.push(await stepWith(id, 0, large(MEBIBYTE)));
    const taken = answers.filter(([status]) => status === 200).length;
    // A sample and its copy in the conversation, of two bytes a character.
    expect(taken).toBeGreaterThan(3);
    expect(taken).toBeLessThan(8);
    expect(answers.slice(taken)).toEqual(Array.from({ length: 12 - taken }, () => full));
    const last = ids.at(-1)!;
    for (const id of ids.slice(0, -1)) await fetch(`${server.url}/v1/episodes/${id}`, { method: 'DELETE' });
    // Nothing of the refused step was taken.
    expect((await stepWith(last, 0, large(MEBIBYTE)))[1].episodes[0]).toMatchObject({ done: false, turn: 1 });
    await expectWell();
  });

  it('makes room by forgetting episodes that have ended', async () => {
    for (let i = 0; i < 12; i++) {
      const { episode_id: id } = await beginChat();
      expect((await stepWith(id, 0, `${large(MEBIBYTE - 10)}done`))[1].episodes[0]).toMatchObject({ done: true });
    }
    await expectWell();
  });

  it('counts the sampling parameters that every line of an episode repeats', async () => {
    const begin = (count: number, sampling: object) =>
      server.post('/v1/episodes', { policy: { kind: 'chat' }, episodes: Array.from({ length: count }, () => ({ example_id: 'row-1' })), sampling });
    expect(await begin(64, { note: large(MEBIBYTE) })).toEqual(full);
    expect((await begin(1, { note: large(MEBIBYTE) }))[0]).toBe(200);
    await expectWell();
  });

  it('counts requests of rollouts that are kept under a request_id', async () => {
    const ask = async (id: number) => {
      const body = {
        example_ids: ['row-1'],
        policy: { base_url: 'http://127.0.0.1:9/v1' },
        sampling: { note: large(MEBIBYTE) },
        request_id: `${id}`,
      };
      const response = await fetch(`${server.url}/v1/rollouts`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      await response.text();
      return response.status;
    };
    // Ended ones make room for others, so all are answered.
    for (let id = 0; id < 12; id++) expect(await ask(id)).toBe(200);
    await expectWell();
  });

  it('refuses a body that has no room before it reads it', async () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.write(
      `POST /v1/episodes/step HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${HELD + 1}\r\nconnection: close\r\n\r\n`,
    );
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString('latin1')).toMatch(/^HTTP\/1\.1 503 /);
    socket.destroy();
    await expectWell();
  });

  it('lets parts of frames take an eighth of its limit together, cuts off those that have held the most for longest, and gives all of it back', async () => {
    await using honest = await openEnvClient(server.url);
    await honest.reset();
    const sockets: Socket[] = [];
    for (let i = 0; i < 12; i++) sockets.push(await openPart(MEBIBYTE - 1000));
    await until(() => sockets.filter(({ destroyed }) => destroyed).length >= 9);
    expect(sockets.map(({ destroyed }) => destroyed).lastIndexOf(false)).toBe(11);
    expect((await honest.step(large(MEBIBYTE - 1000))).type).toBe('observation');
    for (const socket of sockets) socket.destroy();
    await honest[Symbol.asyncDispose]();
    await until(async () => (await stepWith((await beginChat()).episode_id, 0, large(MEBIBYTE)))[0] === 200);
    await expectWell();
  });

  it('cuts off WebSockets whose parts of frames have no room next to other things', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) ids.push((await beginChat()).episode_id);
    for (const id of ids) await stepWith(id, 0, large(MEBIBYTE));
    const sockets: Socket[] = [];
    for (let i = 0; i < 2; i++) sockets.push(await openPart(MEBIBYTE - 1000));
    await until(() => sockets.some(({ destroyed }) => destroyed));
    expect(server.failures).toEqual([]);
    for (const socket of sockets) socket.destroy();
    for (const id of ids) await fetch(`${server.url}/v1/episodes/${id}`, { method: 'DELETE' });
    await expectWell();
  });

  it('counts the frames of WebSockets as any other samples', async () => {
    const clients = await Promise.all(Array.from({ length: 24 }, () => openEnvClient(server.url)));
    const answers = [];
    for (const client of clients) {
      await client.reset();
      answers.push(await client.step(large(MEBIBYTE - 1000)));
    }
    const codes = answers.map(({ type, data }) => (type === 'error' ? (data.code as string) : 'taken'));
    expect(new Set(codes)).toEqual(new Set(['taken', 'CAPACITY_REACHED']));
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
    await until(async () => (await stepWith((await beginChat()).episode_id, 0, large(MEBIBYTE)))[0] === 200);
    await expectWell();
  });
});

/** A WebSocket with the beginning of a frame of text that never ends. */
async function openPart(bytes: number): Promise<Socket> {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => {});
  const head = ['GET /ws HTTP/1.1', 'host: 127.0.0.1', 'connection: Upgrade', 'upgrade: websocket', 'sec-websocket-version: 13'];
  socket.write([...head, 'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==', '', ''].join('\r\n'));
  await once(socket, 'data');
  const frame = Buffer.alloc(14 + bytes, 120);
  frame.set([0x81, 0x80 | 127]);
  frame.writeBigUInt64BE(BigInt(bytes + 500), 2);
  socket.write(frame);
  socket.resume();
  return socket;
}
