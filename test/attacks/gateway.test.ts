/** The gateway through which agents ask the policy: programs that a model drives reach it, so that each session stands against all others. */
import { request } from 'node:http';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import type { GatewayAddress } from '../../src/agents/agent-gateway.ts';
import { until } from '../transport/loopback.ts';
import { type AttackedServer, openConnections, peakGrowth, sendRaw, startNode } from './attacked-process.ts';
import { type Answer, withstandsHttpAttacks } from './http-attacks.ts';

const hello = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };

// Before the tests are described, because the attacks that all servers withstand want to know the path.
const started = startNode([join(import.meta.dirname, 'gateway-process.ts')]);
await Promise.race([until(() => started.stdout.includes('\n')), started.ended]);
const { url, sessions } = JSON.parse(started.stdout) as {
  url: string;
  sessions: [GatewayAddress, GatewayAddress, GatewayAddress, ...GatewayAddress[]];
};
const [one, two, three, ...further] = sessions;
const server: AttackedServer = Object.assign(started, { url, port: Number(new URL(url).port) });
afterAll(() => server[Symbol.asyncDispose]());

/** The path of a session's base: `/s/ID/v1`. */
const pathOf = ({ baseURL }: GatewayAddress) => new URL(baseURL).pathname;

/** Sends the path as it is; a URL would tidy it up. */
async function send(path: string, headers: Record<string, string> = {}, body: unknown = hello, method = 'POST'): Promise<Answer> {
  const sent = request(server.url, { path, method, headers: { 'content-type': 'application/json', ...headers }, agent: false });
  sent.on('error', () => {});
  sent.end(typeof body === 'string' ? body : JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode!, body: await text(response) };
}

describe('the gateway under attack', () => {
  describe('as any server', () => {
    withstandsHttpAttacks({
      server: () => server,
      path: `${pathOf(one)}/chat/completions`,
      good: hello,
      refusals: { notJson: 400, wrongType: 415 },
    });
  });

  it('tells a guessed id or key nothing: every one gets the same words, which name no session', async () => {
    const id = pathOf(one).split('/')[2]!;
    const guesses = [
      id.slice(0, -1),
      `${id}A`,
      id.toLowerCase(),
      id.replace(/.$/, '!'),
      `${id}%00`,
      `${id}%2e`,
      'A'.repeat(64),
      'A'.repeat(10_000),
      '..',
      '*',
      '__proto__',
      'constructor',
    ];
    for (const guess of guesses) {
      const { status, body } = await send(`/s/${guess}/v1/chat/completions`);
      expect([guess, [400, 401, 404].includes(status)]).toEqual([guess, true]);
      expect(body).not.toContain(id);
      expect(body).not.toContain(two.apiKey);
    }
    for (const key of [one.apiKey.slice(0, -1), `${one.apiKey}x`, one.apiKey.toLowerCase(), '', ' ', 'null', 'x'.repeat(8000)])
      for (const headers of [{ authorization: `Bearer ${key}` }, { 'x-api-key': key }, { authorization: key }] as Record<string, string>[])
        expect((await send('/v1/chat/completions', headers)).status).toBe(401);
  });

  it('never answers for another session, whatever path and key stand together', async () => {
    const other = { authorization: `Bearer ${two.apiKey}` };
    const [first, second] = [pathOf(one), pathOf(two)];
    const paths = [
      `${first}/chat/completions`,
      `/s/../${first.slice(1)}/chat/completions`,
      `${first}/../v1/chat/completions`,
      `${first}/%2e%2e/v1/chat/completions`,
      `${first}//chat/completions`,
      `${first}/chat%2fcompletions`,
      `//${first.slice(1)}/chat/completions`,
      `${first}/chat/completions/../../../../../${second.slice(1)}/models`,
      `${second}/../../../${first.slice(1)}/chat/completions`,
      `${first}/chat/completions?x=${second}`,
      `${first}/chat/completions;${second}`,
      `${first}/chat/completions#${second}`,
      `http://127.0.0.1${first}/chat/completions`,
    ];
    for (const path of paths) {
      const { status, body } = await send(path, other);
      expect([path, [400, 401, 404, 405].includes(status)]).toEqual([path, true]);
      expect(body).not.toContain('heard');
    }
    // Two keys of two sessions, and one key for both.
    expect((await send('/v1/messages', { ...other, 'x-api-key': one.apiKey })).status).toBe(401);
    expect((await send(`${second}/messages`, { ...other, 'x-api-key': one.apiKey })).status).toBe(401);
    expect((await send(`${second}/messages`, { ...other, 'x-api-key': two.apiKey })).body).toContain('two heard');
  });

  it('allows no page to read an answer', async () => {
    const origin = { origin: 'https://evil.example' };
    for (const [method, path] of [
      ['OPTIONS', `${pathOf(one)}/chat/completions`],
      ['POST', `${pathOf(one)}/chat/completions`],
      ['GET', `${pathOf(one)}/models`],
    ] as const) {
      const response = await fetch(server.url + path, {
        method,
        headers: { ...origin, 'access-control-request-method': 'POST', 'content-type': 'application/json' },
        ...(method === 'POST' ? { body: JSON.stringify(hello) } : {}),
      });
      expect([...response.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });

  it('refuses bodies that are no request of a dialect, and names what is wrong', async () => {
    const bodies: readonly unknown[] = [
      null,
      3,
      [],
      {},
      { messages: {} },
      { messages: [] },
      { messages: [null] },
      { messages: [[]] },
      { messages: [{ role: '__proto__', content: '' }] },
      { messages: [{ role: 'user', content: { toString: 'x' } }] },
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }] }] },
      '{"messages":[{"role":"user","content":"x"}],"__proto__":{"stream":true}}',
      { ...hello, n: 1e9 },
      { ...hello, n: -1 },
      { ...hello, stop: [{}] },
      { ...hello, tools: [{ type: 'function', function: { name: 3 } }] },
      { ...hello, tools: 'all' },
      { ...hello, tool_choice: { type: 'function', function: { name: 'none' } } },
      { ...hello, response_format: { type: 'json_schema', json_schema: { schema: 'x' } } },
      { ...hello, max_tokens: 0.5 },
      { ...hello, temperature: '1' },
      '{"messages":[{"role":"user","content":"x"}],"temperature":1e999}',
    ];
    for (const body of bodies) {
      const answer = await send(`${pathOf(one)}/chat/completions`, {}, body);
      expect({ body, status: answer.status }).toEqual({ body, status: 400 });
      expect(JSON.parse(answer.body)).toMatchObject({ error: { type: 'invalid_request_error', message: expect.any(String) } });
    }
    for (const body of [
      {},
      { input: null },
      { input: [3] },
      { input: [{ type: 'item_reference', id: '__proto__' }] },
      { input: 'x', previous_response_id: 'constructor' },
    ])
      expect((await send(`${pathOf(one)}/responses`, {}, body)).status).toBe(400);
    for (const body of [
      { ...hello, system: 3 },
      { messages: [{ role: 'user', content: [{ type: 'tool_result' }] }] },
      { ...hello, tool_choice: 'auto' },
    ])
      expect((await send(`${pathOf(one)}/messages`, {}, body)).status).toBe(400);
  });

  it('answers others while an agent leaves many streams open, and holds little for them', async () => {
    const body = JSON.stringify({ ...hello, model: 'never', stream: true });
    const head = `POST ${pathOf(one)}/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    const grown = await peakGrowth(server, async () => {
      await using _ = await openConnections(server.port, 300, head + body);
      await until(async () => (await send(`${pathOf(one)}/chat/completions`)).status === 429);
      expect((await send(`${pathOf(two)}/chat/completions`)).status).toBe(200);
    });
    expect(grown).toBeLessThan(200 * 2 ** 20);
    // They have left, and so have their requests.
    await until(async () => (await send(`${pathOf(one)}/chat/completions`)).status === 200);
  });

  it('forgets old requests of Responses, also those of one long chain', async () => {
    const path = `${pathOf(one)}/responses`;
    const input = 'x'.repeat(2 ** 18);
    const send1 = async (more: object = {}) => (JSON.parse((await send(path, {}, { input, ...more })).body) as { id: string }).id;
    const first = await send1();
    expect((await send(path, {}, { input: 'y', previous_response_id: first })).status).toBe(200);
    const grown = await peakGrowth(server, async () => {
      for (let i = 0; i < 20; i++) await send1();
      let last = await send1();
      for (let i = 0; i < 10; i++) last = await send1({ previous_response_id: last });
      expect((await send(path, {}, { input: 'y', previous_response_id: last })).status).toBe(200);
      let status = 200;
      for (let i = 0; i < 10 && status === 200; i++) {
        const answer = await send(path, {}, { input, previous_response_id: last });
        status = answer.status;
        if (status === 200) last = (JSON.parse(answer.body) as { id: string }).id;
      }
      expect(status).toBe(400);
    });
    expect(grown).toBeLessThan(200 * 2 ** 20);
    expect((await send(path, {}, { input: 'y', previous_response_id: first })).status).toBe(400);
  });

  it('holds little of the bodies that it has read, however many parts they have', async () => {
    // 300,000 lists in 0.9 MB, which are tens of megabytes as values.
    const dense = `[${'[],'.repeat(300_000)}[]]`;
    const grown = await peakGrowth(server, async () => {
      for (const [i, session] of further.entries())
        expect(
          (await send(`${pathOf(session)}/chat/completions`, {}, `{"messages":[{"role":"user","content":"${i}","more":${dense}}]}`)).status,
        ).toBe(200);
    });
    expect(grown).toBeLessThan(300 * 2 ** 20);
  });

  it('reads a body that begins as an earlier one did as if it were the first', async () => {
    const heard = async (path: string, body: string) => {
      const { status, body: said } = await send(path, {}, body);
      return status === 200 ? (/(\w+) heard (\d+)/.exec(said)?.[0] ?? said) : status;
    };
    const chat = `${pathOf(two)}/chat/completions`;
    const begun = '{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}';
    expect(await heard(chat, `${begun}]}`)).toBe('two heard 2');
    expect(await heard(chat, `${begun},{"role":"user","content":"c"}]}`)).toBe('two heard 3');
    expect(await heard(chat, `${begun}],"messages":[{"role":"user","content":"only"}]}`)).toBe('two heard 1');
    expect(await heard(chat, `${begun}],"mess\\u0061ges":[{"role":"user","content":"only"}]}`)).toBe('two heard 1');
    expect(await heard(chat, `${begun}],"messages":{}}`)).toBe(400);
    for (const spoiled of [',]}', ',{"role":"user"', '}', ']', ']}]}', ',null]}', '],"n":1e999}'])
      expect([spoiled, await heard(chat, begun + spoiled)]).toEqual([spoiled, 400]);
    // Another session knows nothing of it, and another dialect reads the items in its own way.
    expect(await heard(`${pathOf(one)}/chat/completions`, `${begun}]}`)).toBe('one heard 2');
    expect(await heard(`${pathOf(two)}/messages`, `${begun}]}`)).toBe('two heard 1');
    expect(await heard(chat, `${begun}]}`)).toBe('two heard 2');
  });

  it('answers nothing more of a session that has ended, also to those who wait', async () => {
    const path = `${pathOf(three)}/chat/completions`;
    const waiting = [send(path, {}, { ...hello, model: 'never' }), send(path, {}, { ...hello, model: 'never', stream: true })];
    const key = { 'x-api-key': three.apiKey };
    expect((await send('/v1/chat/completions', key)).body).toContain('three heard 1');
    await send(path, {}, { ...hello, model: 'end' });
    for (const { body } of await Promise.all(waiting)) {
      expect(body).toContain('The rollout has ended');
      expect(body).not.toContain('heard');
    }
    for (const late of [
      send(path),
      send('/v1/chat/completions', key),
      send(`${pathOf(three)}/models`, {}, '', 'GET'),
      send(`${pathOf(three)}/messages/count_tokens`),
    ])
      expect((await late).status).toBe(400);
    // Its key opens no other door.
    expect((await send(`${pathOf(two)}/chat/completions`, key)).body).toContain('two heard 1');
  });

  it('reads a call whose arguments are a text of any depth', async () => {
    const args = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`;
    const turn = { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: args } }] };
    const messages = [...hello.messages, turn, { role: 'tool', tool_call_id: 'c1', content: 'x' }];
    expect((await send(`${pathOf(one)}/chat/completions`, {}, { model: 'm', messages })).status).toBe(200);
  });

  it('cuts headers that never end', async () => {
    expect(
      await sendRaw(server.port, `GET ${pathOf(one)}/models HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: ${'y'.repeat(100_000)}\r\n\r\n`),
    ).not.toMatch(/^HTTP\/1\.1 200/);
    expect((await send(`${pathOf(one)}/models`, {}, '', 'GET')).status).toBe(200);
  });

  it('failed at nothing itself', () => {
    expect(server.stderr).toBe('');
  });
});
