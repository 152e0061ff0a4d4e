import { describe, expect, it } from 'vitest';
import { untilAborted } from '../../../src/core/abort.ts';
import { Gateway } from '../../../src/server/gateway/gateway.ts';
import { until } from '../../transport/loopback.ts';
import { scriptedGateway, turnOf } from './scripted-session.ts';

const body = { model: 'any', messages: [{ role: 'user', content: 'hello' }] };

function post(url: string, sent: unknown = body, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
  const options = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(sent) };
  return fetch(url, signal === undefined ? options : { ...options, signal });
}

async function told(answer: Promise<Response>): Promise<readonly [status: number, body: unknown]> {
  const response = await answer;
  return [response.status, await response.json()];
}

/** A gateway of two sessions, each of which says who it is. */
async function twoSessions() {
  const gateway = await Gateway.open();
  const add = (name: string) =>
    gateway.add({ model: name, ask: async () => [turnOf({ content: name })], count: async ({ messages }) => messages.length });
  return { gateway, one: add('one'), two: add('two'), [Symbol.asyncDispose]: () => gateway.close() };
}

describe('Gateway', () => {
  it('finds a session by its path, whatever key the client must have', async () => {
    await using all = await twoSessions();
    for (const headers of [{}, { authorization: 'Bearer none' }, { authorization: `Bearer ${all.one.apiKey}` }, { 'x-api-key': all.one.apiKey }])
      expect(await told(post(`${all.one.baseURL}/chat/completions`, body, headers))).toMatchObject([
        200,
        { choices: [{ message: { content: 'one' } }] },
      ]);
  });

  it('finds a session by its key alone, in both headers', async () => {
    await using all = await twoSessions();
    const url = `${all.gateway.url}/v1/messages?beta=true`;
    for (const headers of [
      { authorization: `Bearer ${all.two.apiKey}` },
      { 'x-api-key': all.two.apiKey },
      { 'x-api-key': 'none', authorization: `bearer ${all.two.apiKey}` },
    ])
      expect(await told(post(url, body, headers))).toMatchObject([200, { content: [{ text: 'two' }] }]);
  });

  it('answers where a client adds /v1 to the base URL, or leaves it out', async () => {
    await using all = await twoSessions();
    for (const base of [all.one.baseURL, `${all.one.baseURL}/v1`, all.one.baseURL.replace(/\/v1$/, '')])
      expect((await post(`${base}/messages`)).status).toBe(200);
  });

  it("refuses another session's key, an unknown session and no key, in the dialect of the path, without a word on others", async () => {
    await using all = await twoSessions();
    const foreign = { authorization: `Bearer ${all.two.apiKey}` };
    expect(await told(post(`${all.one.baseURL}/chat/completions`, body, foreign))).toMatchObject([
      401,
      { error: { type: 'authentication_error', code: null } },
    ]);
    expect(await told(post(`${all.one.baseURL}/messages`, body, foreign))).toMatchObject([
      401,
      { type: 'error', error: { type: 'authentication_error' } },
    ]);
    const unknown = all.one.baseURL.replace(/s\/[^/]+/, `s/${'A'.repeat(32)}`);
    expect(await told(post(`${unknown}/responses`))).toMatchObject([404, { error: { type: 'not_found_error' } }]);
    expect(await told(post(`${unknown}/messages`, body, foreign))).toMatchObject([404, { type: 'error' }]);
    const none = await post(`${all.gateway.url}/v1/chat/completions`);
    expect([none.status, none.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect(await told(post(`${all.gateway.url}/v1/messages`, body, { 'x-api-key': 'vf-none' }))).toMatchObject([401, { type: 'error' }]);
  });

  it('tells a request after the end that the rollout has ended, and one that waits', async () => {
    await using gateway = await Gateway.open();
    const address = gateway.add({ model: 'm', ask: (_, signal) => untilAborted(new Promise<never>(() => {}), signal), count: async () => 0 });
    const waits = told(post(`${address.baseURL}/messages`));
    const streams = (await post(`${address.baseURL}/responses`, { model: 'm', input: 'x', stream: true })).text();
    address.close();
    address.close();
    expect(await waits).toMatchObject([400, { type: 'error', error: { message: expect.stringContaining('The rollout has ended') } }]);
    expect(await streams).toContain('event: response.failed');
    for (const url of [address.baseURL, `${gateway.url}/v1`])
      expect(await told(post(`${url}/chat/completions`, body, { authorization: `Bearer ${address.apiKey}` }))).toMatchObject([
        400,
        { error: { message: expect.stringContaining('The rollout has ended') } },
      ]);
  });

  it('counts the tokens of a request', async () => {
    await using all = await twoSessions();
    expect(await told(post(`${all.one.baseURL}/messages/count_tokens`))).toEqual([200, { input_tokens: 1 }]);
    expect(await told(post(`${all.one.baseURL}/responses/input_tokens`, { input: 'x' }))).toEqual([
      200,
      { object: 'response.input_tokens', input_tokens: 1 },
    ]);
    const bad = { ...body, messages: 3 };
    expect(await told(post(`${all.one.baseURL}/messages/count_tokens`, bad))).toMatchObject([
      400,
      { error: { message: 'messages must be a list.' } },
    ]);
  });

  it('answers HEAD and GET of its base, OPTIONS, and refuses other routes and methods by name', async () => {
    await using all = await twoSessions();
    const { baseURL } = all.one;
    const ask = async (path: string, method: string) => {
      const { status, headers } = await fetch(baseURL + path, { method });
      return [status, headers.get('allow')];
    };
    expect([await ask('', 'HEAD'), await ask('', 'GET'), await ask('/models', 'HEAD'), await ask('/models/one', 'GET')]).toEqual(
      [0, 1, 2, 3].map(() => [200, null]),
    );
    expect(await ask('/messages', 'OPTIONS')).toEqual([204, 'POST, OPTIONS']);
    expect([await ask('/messages', 'GET'), await ask('/models', 'POST')]).toEqual([
      [405, 'POST, OPTIONS'],
      [405, 'GET, HEAD, OPTIONS'],
    ]);
    expect(await told(post(`${baseURL}/completions`))).toMatchObject([
      404,
      { error: { message: expect.stringContaining('It answers POST chat/completions') } },
    ]);
  });

  it('reports its own failure to the process, and says nothing of it to the agent', async () => {
    await using gateway = await scriptedGateway(() => {
      throw new Error('secret of the process');
    });
    const [status, answer] = await told(post(`${gateway.baseURL}/chat/completions`));
    expect([status, JSON.stringify(answer)]).toEqual([500, expect.not.stringContaining('secret')]);
    expect(gateway.failures).toMatchObject([{ message: 'secret of the process' }]);
  });

  it('passes a disconnection on, of a plain request and of a stream', async () => {
    const signals: AbortSignal[] = [];
    await using gateway = await scriptedGateway((_, __, signal) => {
      signals.push(signal);
      return untilAborted(new Promise<never>(() => {}), signal);
    });
    const left = new AbortController();
    const plain = post(`${gateway.baseURL}/chat/completions`, body, {}, left.signal).catch(() => null);
    const stream = await post(`${gateway.baseURL}/chat/completions`, { ...body, stream: true }, {}, left.signal);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
    left.abort();
    await plain;
    await stream.text().catch(() => null);
    await until(() => signals.every(({ aborted }) => aborted));
    expect(gateway.failures).toEqual([]);
  });

  it('answers as many requests of a session at a time as an agent has sub-agents, and no more', async () => {
    const gate = Promise.withResolvers<void>();
    await using gateway = await scriptedGateway(async () => {
      await gate.promise;
      return turnOf({ content: 'late' });
    });
    const waiting = Array.from({ length: 257 }, () => told(post(`${gateway.baseURL}/chat/completions`)));
    await until(() => gateway.asked.length === 256);
    expect(await Promise.race(waiting)).toMatchObject([429, { error: { type: 'rate_limit_error' } }]);
    gate.resolve();
    expect((await Promise.all(waiting)).filter(([status]) => status === 200)).toHaveLength(256);
  });

  it('refuses a session the words of another one: items and answers have no other owner', async () => {
    await using all = await twoSessions();
    const [, first] = (await told(post(`${all.one.baseURL}/responses`, { input: 'x' }))) as [number, { id: string; output: [{ id: string }] }];
    for (const input of [{ previous_response_id: first.id, input: 'y' }, { input: [{ type: 'item_reference', id: first.output[0].id }] }])
      expect((await post(`${all.two.baseURL}/responses`, input)).status).toBe(400);
    expect((await fetch(`${all.two.baseURL}/responses/${first.id}`)).status).toBe(404);
  });

  it('closes with its signal, also one that has aborted already', async () => {
    const signal = AbortSignal.abort();
    const gateway = await Gateway.open({ signal });
    await gateway.close();
    await expect(fetch(gateway.url)).rejects.toThrow('fetch failed');
  });
});
