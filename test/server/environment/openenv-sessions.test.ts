/** Sessions of OpenEnv's WebSocket: who may open one, how many there are, how they end. */
import { describe, expect, it } from 'vitest';
import { until } from '../../transport/loopback.ts';
import { environmentClient, liveEpisodes, TalkEnv } from './environment-client.ts';
import { errorFrame, openEnvClient } from './openenv-client.ts';

describe('a session of WS /ws', () => {
  it('closes a session whose client sends far ahead of the answers, and frees its episode', async () => {
    const onStep = (_: string, signal: AbortSignal) =>
      new Promise<void>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    await using server = await environmentClient(new TalkEnv({ onStep }));
    await using client = await openEnvClient(server.url);
    await client.reset();
    for (let i = 0; i < 100; i++) client.send({ type: 'step', data: { text: 'hi;' } });
    expect(await client.next()).toEqual(errorFrame('SESSION_ERROR', /Await the answer/));
    expect(await client.closed).toBe(1008);
    await until(async () => (await liveEpisodes(server)) === 0);
  });

  it('frees the episode as its socket closes, however it closes and whatever the episode does', async () => {
    const onStep = (_: string, signal: AbortSignal) =>
      new Promise<void>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    await using server = await environmentClient(new TalkEnv({ onStep }), { maxSessions: 3 });
    const [waiting, acting, closing] = [await openEnvClient(server.url), await openEnvClient(server.url), await openEnvClient(server.url)];
    for (const client of [waiting, acting, closing]) await client.reset();
    acting.send({ type: 'step', data: { text: 'hi;' } });
    expect(await liveEpisodes(server)).toBe(3);
    waiting.socket.terminate();
    acting.socket.terminate();
    closing.socket.close();
    await until(async () => (await liveEpisodes(server)) === 0);
    await using again = await openEnvClient(server.url);
    expect((await again.reset()).type).toBe('observation');
  });

  it('answers the first frame of a session too many by CAPACITY_REACHED, then closes; a place that is left can be taken', async () => {
    await using server = await environmentClient(new TalkEnv(), { maxSessions: 2 });
    await using one = await openEnvClient(server.url);
    await using other = await openEnvClient(server.url);
    await using third = await openEnvClient(server.url);
    expect(await third.reset()).toEqual({
      type: 'error',
      data: {
        code: 'CAPACITY_REACHED',
        message: expect.stringMatching(/2 of 2 sessions are open \(--max-sessions\)/) as string,
        active_sessions: 2,
        max_sessions: 2,
      },
    });
    expect(await third.closed).toBe(1013);
    one.send({ type: 'close' });
    await one.closed;
    await using fourth = await openEnvClient(server.url);
    expect((await fourth.reset()).type).toBe('observation');
    expect((await other.reset()).type).toBe('observation');
  });

  it('gives the place that nobody has used for longest to a client that needs one, although the first client answers pings', async () => {
    await using server = await environmentClient(new TalkEnv(), { maxSessions: 2, idleTimeoutMs: 30, socketTimes: { pingMs: 5, silentMs: 60_000 } });
    await using oldest = await openEnvClient(server.url);
    await oldest.reset();
    await using later = await openEnvClient(server.url);
    await later.reset();
    await until(async () => (await liveEpisodes(server)) === 0);
    await using third = await openEnvClient(server.url);
    expect((await third.reset()).type).toBe('observation');
    expect(await oldest.closed).toBe(1001);
    expect((await later.reset()).type).toBe('observation');
  });

  it.each([{ type: 'state' }, { type: 'nonsense' }])(
    'gives that place away although the first client sends frames that use nothing: %j',
    async (frame) => {
      await using server = await environmentClient(new TalkEnv(), {
        maxSessions: 1,
        idleTimeoutMs: 30,
        socketTimes: { pingMs: 5, silentMs: 60_000 },
      });
      await using idle = await openEnvClient(server.url);
      await idle.reset();
      const ask = setInterval(() => idle.send(frame), 2);
      await until(async () => (await liveEpisodes(server)) === 0);
      await using next = await openEnvClient(server.url);
      expect((await next.reset()).type).toBe('observation');
      clearInterval(ask);
      expect(await idle.closed).toBe(1001);
    },
  );

  it('keeps a session whose episode timed out while nobody needs its place', async () => {
    await using server = await environmentClient(new TalkEnv(), { maxSessions: 2, idleTimeoutMs: 30, socketTimes: { pingMs: 5, silentMs: 60_000 } });
    await using client = await openEnvClient(server.url);
    await client.reset();
    await until(async () => (await liveEpisodes(server)) === 0);
    await using other = await openEnvClient(server.url);
    expect((await other.reset()).type).toBe('observation');
    expect((await client.reset()).type).toBe('observation');
  });

  it('answers a reset by CAPACITY_REACHED while other callers’ episodes fill the house, and the session lives on', async () => {
    await using server = await environmentClient(new TalkEnv(), { maxSessions: 2 });
    const [first] = await server.begin(['row-0', 'row-1'], 'chat');
    await using client = await openEnvClient(server.url);
    expect(await client.reset()).toEqual(errorFrame('CAPACITY_REACHED', /2 of 2 episodes are open/));
    await fetch(`${server.url}/v1/episodes/${first.episode_id}`, { method: 'DELETE' });
    expect((await client.reset()).data.metadata.example_id).toBe('row-0');
  });

  it('lets a refused client wait for a while only', async () => {
    await using server = await environmentClient(new TalkEnv(), { maxSessions: 1, socketTimes: { refusedMs: 20 } });
    await using one = await openEnvClient(server.url);
    await using silent = await openEnvClient(server.url);
    expect(await silent.closed).toBe(1013);
    expect((await one.reset()).type).toBe('observation');
  });

  it('closes a frame of more than 1 MiB with 1009, and takes one of less', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    await client.reset();
    expect((await client.step(`${'x'.repeat(2 ** 20 - 100)};`)).type).toBe('observation');
    client.send({ type: 'step', data: { text: 'x'.repeat(2 ** 20) } });
    expect(await client.closed).toBe(1009);
    await until(async () => (await liveEpisodes(server)) === 0);
  });

  it('ends a session whose frame does not end in time, however slowly it goes on, and none that sends whole frames', async () => {
    await using server = await environmentClient(new TalkEnv(), { socketTimes: { messageMs: 100, pingMs: 5 } });
    await using there = await openEnvClient(server.url);
    await using slow = await openEnvClient(server.url);
    await using late = await openEnvClient(server.url);
    for (const client of [there, slow, late]) await client.reset();
    late.socket.send('{"type":', { fin: false });
    // Pongs between the frames of a message do not end it.
    const trickle = setInterval(() => (slow.socket.send(' ', { fin: false }), slow.socket.pong()), 10);
    const ended = Promise.all([slow, late].map(async (client) => [await client.next(), await client.closed]));
    while ('type' in (await Promise.race([ended, there.reset()])));
    clearInterval(trickle);
    const problem = errorFrame('SESSION_ERROR', /^The server ends the session: its message did not end within 0\.1 s\. Send each frame at once\.$/);
    expect(await ended).toEqual([
      [problem, 1008],
      [problem, 1008],
    ]);
    expect(await liveEpisodes(server)).toBe(1);
  });

  it('pings its clients, and cuts those that answer nothing', async () => {
    await using server = await environmentClient(new TalkEnv(), { socketTimes: { pingMs: 10, silentMs: 500 } });
    await using there = await openEnvClient(server.url);
    await using gone = await openEnvClient(server.url, { autoPong: false });
    await there.reset();
    await gone.reset();
    expect(await gone.closed).toBe(1006);
    expect((await there.step('hi;')).type).toBe('observation');
    expect(await liveEpisodes(server)).toBe(1);
  });

  it('passes the door: the host, the key, the origin, the path', async () => {
    await using server = await environmentClient(new TalkEnv(), { apiKey: 'sesame' });
    const headers = { authorization: 'Bearer sesame' };
    const own = new URL(server.url).host;
    const refused: [number, object][] = [
      [401, {}],
      [401, { headers: { authorization: 'Bearer open' } }],
      [403, { headers: { ...headers, host: 'evil.example' } }],
      [403, { headers: { ...headers, origin: 'http://evil.example' } }],
      [403, { headers: { ...headers, origin: 'null' } }],
      [403, { headers: { ...headers, origin: 'http://127.0.0.1:1' } }],
      [404, { headers, path: '/v1/episodes' }],
      [404, { headers, path: '/ws/x' }],
    ];
    for (const [status, options] of refused) {
      await expect(openEnvClient(server.url, options)).rejects.toThrow(`Unexpected server response: ${status}`);
    }
    for (const options of [{ headers }, { headers: { ...headers, origin: `http://${own}` } }, { headers, path: '/ws?session=1' }]) {
      await using client = await openEnvClient(server.url, options);
      expect((await client.reset()).type).toBe('observation');
    }
  });

  it('says goodbye to its sessions as the server stops', async () => {
    const server = await environmentClient(new TalkEnv());
    const client = await openEnvClient(server.url);
    await client.reset();
    await server[Symbol.asyncDispose]();
    expect(await client.closed).toBe(1001);
  });
});
