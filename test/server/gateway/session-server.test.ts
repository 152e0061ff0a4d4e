/** `vf-serve gateway` as a trainer and its agents use it. */
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../../src/clients/scripted.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { type ServedRollout, ServedRolloutSchema } from '../../../src/schemas/environment-server/served-rollout.ts';
import { schemaCheck, schemaProblem } from '../../../src/schemas/schema-check.ts';
import { type SessionServerOptions, startSessionServer } from '../../../src/server/gateway/start-session-server.ts';
import { servedSampling } from '../../../src/serving/open-served-policy.ts';
import { until } from '../../transport/loopback.ts';

async function serve(options: Partial<SessionServerOptions> = {}) {
  const failures: unknown[] = [];
  const server = await startSessionServer({
    client: new ScriptedClient({ turns: ({ messages }) => `turn ${messages.length}` }),
    readSampling: (fields) => servedSampling(fields),
    maxSessions: 4,
    timeoutMs: 60_000,
    seed: 0,
    redact: (text) => text,
    host: '127.0.0.1',
    port: 0,
    apiKey: null,
    version: '0',
    onFailure: (error) => failures.push(error),
    ...options,
  });
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(server.url + path, { method, headers: { 'content-type': 'application/json', ...headers }, ...sent });
    return { status: answer.status, body: (await answer.json()) as Answer };
  };
  return { server, call, failures, [Symbol.asyncDispose]: () => server.close() };
}

interface Answer {
  readonly session_id: string;
  readonly base_url: string;
  readonly api_key: string;
  readonly model: string;
  readonly status: string;
  readonly rollout: ServedRollout | null;
  readonly error: { readonly type: string; readonly message: string };
}

async function ask({ base_url: baseURL, api_key: apiKey }: Answer, contents: readonly string[]): Promise<string> {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const messages = contents.map((content, i) => ({ role: i % 2 === 0 ? ('user' as const) : ('assistant' as const), content }));
  return (await client.chat.completions.create({ model: 'policy', messages })).choices[0]!.message.content!;
}

describe('startSessionServer', () => {
  it('gives an agent an address, and its trainer the rollout: token ids, mask, log-probs and branches', async () => {
    await using served = await serve();
    const { status, body: session } = await served.call('POST', '/sessions', { example_id: 'q1', group_id: 'g' });
    expect([status, session.model, session.base_url.startsWith(`${served.server.url}/s/`)]).toEqual([201, 'scripted', true]);
    expect(await ask(session, ['hello'])).toBe('turn 1');
    expect(await ask(session, ['hello', 'turn 1', 'and?'])).toBe('turn 2');
    expect(await ask(session, ['something else'])).toBe('turn 1');
    const { body: soFar } = await served.call('GET', `/sessions/${session.session_id}`);
    expect(soFar).toMatchObject({
      status: 'open',
      rollout: { example_id: 'q1', reward: null, error: null, stop_condition: 'open', num_turns: 3, branches: [{ parent: null }] },
    });
    const { body } = await served.call('POST', `/sessions/${session.session_id}/reward`, { reward: 0.5 });
    const rollout = body.rollout!;
    const check = schemaCheck(ServedRolloutSchema);
    for (const each of [soFar.rollout, rollout]) expect(check(each) ? null : schemaProblem(check, 'The rollout')).toBeNull();
    expect(rollout).toEqual({ ...soFar.rollout, reward: 0.5, stop_condition: 'completed' });
    expect(rollout).toMatchObject({
      example_id: 'q1',
      group_id: 'g',
      reward: 0.5,
      error: null,
      num_turns: 3,
      branches: [{ parent: null, fork: { kind: 'history', at: 0 } }],
    });
    for (const { token_ids: ids, loss_mask: mask, logprobs } of [rollout, ...rollout.branches!])
      expect([mask!.length, logprobs!.length, mask!.includes(1)]).toEqual([ids!.length, ids!.length, true]);
    expect((await served.call('GET', `/sessions/${session.session_id}`)).body).toEqual(body);
    await expect(ask(session, ['hello'])).rejects.toThrow('The rollout has ended');
    expect(served.failures).toEqual([]);
  });

  it('ends a session without a reward, takes one later, and forgets it', async () => {
    await using served = await serve();
    const { body: session } = await served.call('POST', '/sessions', {});
    const path = `/sessions/${session.session_id}`;
    await ask(session, ['hello']);
    expect((await served.call('POST', `${path}/end`)).body).toMatchObject({ status: 'ended', rollout: { reward: null, error: null, num_turns: 1 } });
    expect((await served.call('POST', `${path}/reward`, { reward: -1 })).body.rollout!.reward).toBe(-1);
    expect(await served.call('DELETE', path)).toMatchObject({ status: 200, body: { deleted: true } });
    expect((await served.call('GET', path)).status).toBe(404);
  });

  it('never gives a failed rollout a reward: one that no agent played, and one that ran out of time', async () => {
    await using served = await serve();
    const { body: unplayed } = await served.call('POST', '/sessions', {});
    const refused = await served.call('POST', `/sessions/${unplayed.session_id}/reward`, { reward: 1 });
    expect(refused).toMatchObject({ status: 409, body: { error: { message: expect.stringContaining('No agent asked the policy') } } });
    expect((await served.call('GET', `/sessions/${unplayed.session_id}`)).body.rollout).toMatchObject({
      reward: null,
      error: { type: 'AgentError' },
    });
    const { body: late } = await served.call('POST', '/sessions', { timeout: 0.05 });
    await until(async () => (await served.call('GET', `/sessions/${late.session_id}`)).body.status === 'ended');
    expect((await served.call('POST', `/sessions/${late.session_id}/reward`, { reward: 1 })).body.error.message).toContain(
      'did not end within 0.05 s',
    );
    await expect(ask(late, ['hello'])).rejects.toThrow('The rollout has ended');
  });

  it('holds as many sessions as it may: the oldest that has ended gives its place', async () => {
    await using served = await serve({ maxSessions: 2 });
    const [first, second] = [(await served.call('POST', '/sessions', {})).body, (await served.call('POST', '/sessions', {})).body];
    expect(await served.call('POST', '/sessions', {})).toMatchObject({ status: 503, body: { error: { type: 'OverloadedError' } } });
    await served.call('POST', `/sessions/${second.session_id}/end`);
    expect((await served.call('POST', '/sessions', {})).status).toBe(201);
    expect((await served.call('GET', `/sessions/${second.session_id}`)).status).toBe(404);
    expect((await served.call('GET', `/sessions/${first.session_id}`)).body.status).toBe('open');
  });

  it('bounds a session by turns, and refuses what it cannot honour by name', async () => {
    await using served = await serve();
    const { body: session } = await served.call('POST', '/sessions', { max_turns: 1 });
    await ask(session, ['hello']);
    await expect(ask(session, ['something else'])).rejects.toThrow('max_turns_reached');
    // A client that has lost its connection asks again.
    expect(await ask(session, ['hello'])).toBe('turn 1');
    await expect(ask(session, ['hello', 'turn 1', 'more'])).rejects.toThrow('max_turns_reached');
    for (const [body, problem] of [
      [{ max_turns: 0 }, 'max_turns'],
      [{ timeout: 61 }, 'timeout must be at most 60 seconds'],
      [{ temperature: 1 }, 'temperature'],
      [{ sampling: { temprature: 1 } }, 'did you mean temperature'],
    ] as const)
      expect(await served.call('POST', '/sessions', body)).toMatchObject({
        status: 422,
        body: { error: { message: expect.stringContaining(problem) } },
      });
    expect((await served.call('POST', `/sessions/${session.session_id}/reward`, { reward: 'much' })).status).toBe(422);
  });

  it('never gives a rollout a reward in which every request was refused, and says why they were', async () => {
    await using served = await serve();
    const { body: session } = await served.call('POST', '/sessions', { max_turns: 1 });
    const client = new OpenAI({ baseURL: session.base_url, apiKey: session.api_key, maxRetries: 0 });
    for (const more of [{ response_format: { type: 'json_object' as const } }, { n: 2 }])
      await expect(client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'a' }], ...more })).rejects.toThrow(
        'cannot be honoured',
      );
    const refused = await served.call('POST', `/sessions/${session.session_id}/reward`, { reward: 0 });
    expect(refused).toMatchObject({ status: 409, body: { error: { message: expect.stringContaining('n cannot be honoured') } } });
    const { body } = await served.call('GET', `/sessions/${session.session_id}`);
    expect(body).toMatchObject({ refused: { count: 2, first: expect.stringMatching(/^response_format cannot be honoured/) } });
  });

  it('says where sessions are to a client that adds /v1 to its address, and why one may be gone', async () => {
    await using served = await serve();
    const message = (text: string) => ({ status: 404, body: { error: { message: expect.stringContaining(text) } } });
    expect(await served.call('POST', '/v1/sessions', {})).toMatchObject(message('Sessions are at /sessions, without /v1'));
    expect(await served.call('POST', '/v1/sessions/a/end')).toMatchObject(message('Sessions are at /sessions, without /v1'));
    expect(await served.call('GET', '/sessions/a')).toMatchObject(message('or the server was started again'));
  });

  it('asks whether the policy reads the sampling of a session before it opens one', async () => {
    const readSampling = async (fields: Readonly<Record<string, unknown>>) => {
      if ('foo' in fields) throw new ConfigError('foo in sampling has no effect. Leave it out.');
      return servedSampling(fields);
    };
    await using served = await serve({ readSampling, maxSessions: 1 });
    const unread = await served.call('POST', '/sessions', { sampling: { foo: 1 } });
    expect(unread).toMatchObject({ status: 422, body: { error: { message: 'foo in sampling has no effect. Leave it out.' } } });
    expect((await served.call('POST', '/sessions', { sampling: { top_k: 1 } })).status).toBe(201);
  });

  it('keeps the trainer and the agents apart: neither has what the other may do', async () => {
    await using served = await serve({ apiKey: 'of the trainer' });
    const trainer = { authorization: 'Bearer of the trainer' };
    expect((await served.call('POST', '/sessions', {})).status).toBe(401);
    const { body: session } = await served.call('POST', '/sessions', {}, trainer);
    const agent = { authorization: `Bearer ${session.api_key}` };
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['DELETE', '', undefined],
      ['POST', '/end', undefined],
      ['POST', '/reward', { reward: 1 }],
    ] as const)
      expect((await served.call(method, `/sessions/${session.session_id}${path}`, body, agent)).status).toBe(401);
    expect(await ask(session, ['hello'])).toBe('turn 1');
    const hello = { messages: [{ role: 'user', content: 'hello' }] };
    expect((await served.call('POST', '/v1/chat/completions', hello, trainer)).status).toBe(401);
    expect((await served.call('GET', '/health')).status).toBe(200);
  });

  it('is never open to the network without a key', async () => {
    await expect(serve({ host: '0.0.0.0' })).rejects.toThrow('Add --api-key-var NAME');
  });

  it('gives agents the address under which they reach it', async () => {
    await using served = await serve({ publicUrl: 'https://gateway.example/' });
    expect((await served.call('POST', '/sessions', {})).body.base_url).toMatch(/^https:\/\/gateway\.example\/s\/[\w-]{32}\/v1$/);
  });
});
