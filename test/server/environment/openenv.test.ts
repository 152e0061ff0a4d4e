import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, EnvironmentError } from '../../../src/core/errors.ts';
import { until } from '../../transport/loopback.ts';
import { type Answer, environmentClient, liveEpisodes, stillTime, TalkEnv } from './environment-client.ts';
import { errorFrame, openEnvClient } from './openenv-client.ts';

describe('WS /ws', () => {
  it('plays an episode: the prompt, what the environment adds to each action, and the reward at the end', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    expect(await client.reset({ example_id: 'row-1', episode_id: 'mine' })).toEqual({
      type: 'observation',
      data: {
        observation: { prompt: [{ role: 'user', content: 'Talk about 1.' }], text: '', stop: [';'], stop_condition: null, metrics: {} },
        reward: null,
        done: false,
        metadata: { episode_id: 'mine', example_id: 'row-1', max_new_tokens: 200 },
      },
    });
    const { data } = await client.step('hello; and more');
    expect(data).toMatchObject({
      observation: { text: ' you said hello;', stop: [';'], stop_condition: null, metrics: {} },
      reward: null,
      done: false,
      metadata: { episode_id: 'mine', example_id: 'row-1', max_new_tokens: 200, kept: 'hello;' },
    });
    expect((await client.step('hi;')).data.observation.text).toBe(' you said hi;');
    expect(await client.ask({ type: 'state' })).toEqual({
      type: 'state',
      data: { episode_id: 'mine', step_count: 2, example_id: 'row-1', done: false },
    });
    expect((await client.step('done;')).data).toEqual({
      observation: { text: '', stop: [], stop_condition: 'completed', metrics: { turns: 3, chars: 14 } },
      reward: 3,
      done: true,
      metadata: { episode_id: 'mine', example_id: 'row-1', max_new_tokens: null, kept: 'done;' },
    });
    expect((await client.ask({ type: 'state', data: {} })).data).toEqual({ episode_id: 'mine', step_count: 3, example_id: 'row-1', done: true });
    client.send({ type: 'close' });
    expect(await client.closed).toBe(1000);
    expect(server.failures).toEqual([]);
  });

  it('writes rewards and metrics as floats', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    await client.reset();
    const frame = new Promise<string>((resolve) => client.socket.once('message', (data) => resolve((data as Buffer).toString('utf8'))));
    client.send({ type: 'step', data: { text: 'done;' } });
    expect(await frame).toContain('"reward":1.0,');
  });

  it('picks the row by example_id, by seed counted round, or the next one in order over all sessions', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using one = await openEnvClient(server.url);
    await using other = await openEnvClient(server.url);
    const row = async (client: typeof one, data: object) => (await client.reset(data)).data.metadata.example_id;
    expect([await row(one, {}), await row(other, {}), await row(one, { seed: 5 }), await row(other, { seed: null }), await row(one, {})]).toEqual([
      'row-0',
      'row-1',
      'row-1',
      'row-2',
      'row-3',
    ]);
    expect([await row(one, {}), await row(one, { example_id: 'row-2', seed: 0 })]).toEqual(['row-0', 'row-2']);
    const { metadata } = (await one.reset()).data;
    expect(metadata.episode_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it.each([
    ['a step before any reset', { type: 'step', data: { text: 'hi;' } }, errorFrame('EXECUTION_ERROR', /No episode has begun.*Send reset first/)],
    ['what is not JSON', '{"type": "reset"', errorFrame('INVALID_JSON', /^The frame is not JSON: .*/)],
    ['a binary frame', Buffer.from('{"type": "reset"}'), errorFrame('INVALID_JSON', /binary.*text frame/)],
    ['an unknown type', { type: 'render' }, errorFrame('UNKNOWN_TYPE', /"render" is unknown. Send reset, step, state or close/)],
    ['no type', { data: {} }, errorFrame('UNKNOWN_TYPE', /type is nothing/)],
    ['a call of MCP', { type: 'mcp', data: { jsonrpc: '2.0', id: 1, method: 'tools/list' } }, errorFrame('UNKNOWN_TYPE', /no MCP tools/)],
    ['a list', [1], errorFrame('VALIDATION_ERROR', /The frame is a list/)],
    ['an unknown key', { type: 'state', foo: 1 }, errorFrame('VALIDATION_ERROR', /"foo"/)],
    ['deep data', `{"type": "step", "data": ${'['.repeat(100)}${']'.repeat(100)}}`, errorFrame('VALIDATION_ERROR', /64 levels/)],
    [
      'an unknown row',
      { type: 'reset', data: { example_id: 'row-9' } },
      errorFrame('VALIDATION_ERROR', /"row-9" is not among the 4 rows.*GET \/v1\/tasks/),
    ],
    ['a seed below 0', { type: 'reset', data: { seed: -1 } }, errorFrame('VALIDATION_ERROR', /seed/)],
    ['a reset with an unknown key', { type: 'reset', data: { row: 1 } }, errorFrame('VALIDATION_ERROR', /"row".*Send example_id/)],
    ['a reset of a list', { type: 'reset', data: [] }, errorFrame('VALIDATION_ERROR', /reset's data must be an object/)],
    ['an action that is text', { type: 'step', data: 'hi' }, errorFrame('VALIDATION_ERROR', /The action is a string/)],
    ['an action without text', { type: 'step', data: {} }, errorFrame('VALIDATION_ERROR', /text is nothing. Send {"text": "..."}/)],
    ['an action with a list', { type: 'step', data: { text: ['hi'] } }, errorFrame('VALIDATION_ERROR', /text is a list/)],
    ['an action with more', { type: 'step', data: { text: 'hi', query: 'x' } }, errorFrame('VALIDATION_ERROR', /"query"/)],
  ])('answers %s by an error, and the session lives on', async (_, frame, expected) => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    expect(await client.ask(frame)).toEqual(expected);
    expect((await client.reset()).data.done).toBe(false);
    expect((await client.step('done;')).data.reward).toBe(1);
    expect(server.failures).toEqual([]);
  });

  it('leaves the episode as it is where an action or a reset is refused', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    await client.reset();
    await client.step('hi;');
    await client.step({});
    await client.reset({ seed: 0.5 });
    expect((await client.step('done;')).data.reward).toBe(2);
  });

  it('takes numbers and booleans as text, and the metadata that typed clients add', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    await client.reset();
    expect((await client.step(42)).data.observation.text).toBe(' you said 42');
    const digits = await client.ask('{"type": "step", "data": {"text": 12345678901234567890.10}}');
    expect(digits.data.observation.text).toBe(' you said 12345678901234567890.10');
    expect((await client.step(true)).data.observation.text).toBe(' you said true');
    const answer = await client.ask({ type: 'step', data: { text: 'done;', metadata: {} } });
    expect(answer.data.done).toBe(true);
  });

  it('refuses a step after the end, until the next reset', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    await client.reset();
    await client.step('done;');
    expect(await client.step('more;')).toEqual(errorFrame('EXECUTION_ERROR', /has ended. Send reset/));
    expect((await client.reset()).data.done).toBe(false);
    expect(await liveEpisodes(server)).toBe(1);
  });

  it('answers a failed episode by its error, never by a reward', async () => {
    const onStep = (kept: string) => {
      if (kept.includes('fail')) throw new EnvironmentError('The index with hunter2 is gone');
    };
    await using server = await environmentClient(new TalkEnv({ onStep }));
    await using client = await openEnvClient(server.url);
    await client.reset();
    expect(await client.step('fail;')).toEqual(errorFrame('EXECUTION_ERROR', /^EnvironmentError: The index with \*\*\* is gone.*no reward/));
    expect(await client.step('more;')).toEqual(errorFrame('EXECUTION_ERROR', /has ended/));
    expect((await client.reset()).data.done).toBe(false);
  });

  it('gives up an episode whose step takes longer than --step-timeout, and begins another one', async () => {
    using time = stillTime();
    const gone = Promise.withResolvers<void>();
    const slow = (signal: AbortSignal) =>
      new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => (gone.resolve(), reject(signal.reason)));
        time.pass(30);
      });
    const onStep = (kept: string, signal: AbortSignal) => (kept.includes('slow') ? slow(signal) : undefined);
    await using server = await environmentClient(new TalkEnv({ onStep }), { stepTimeoutMs: 30 });
    await using client = await openEnvClient(server.url);
    await client.reset();
    expect(await client.step('slow;')).toEqual(
      errorFrame('EXECUTION_ERROR', /did not answer within 0.03 s \(--step-timeout\). The episode was given up. Send reset/),
    );
    await gone.promise;
    expect((await client.ask({ type: 'state' })).data).toMatchObject({ step_count: 1, done: true });
    expect(await liveEpisodes(server)).toBe(0);
    await client.reset();
    expect((await client.step('done;')).data.reward).toBe(1);
  });

  it('says so where nobody acted within --idle-timeout, and that the episode is done', async () => {
    await using server = await environmentClient(new TalkEnv(), { idleTimeoutMs: 30 });
    await using client = await openEnvClient(server.url);
    await client.reset();
    await until(async () => (await liveEpisodes(server)) === 0);
    expect((await client.ask({ type: 'state' })).data).toMatchObject({ step_count: 0, example_id: 'row-0', done: true });
    expect(await client.step('hi;')).toEqual(errorFrame('EXECUTION_ERROR', /no action came within the time of --idle-timeout. Send reset/));
    expect((await client.reset()).data.done).toBe(false);
  });

  it('says why it cannot play the environment’s roles', async () => {
    const callerModels = () => {
      throw new ConfigError('The role judge is bound to the policy. Name a model: --role judge=URL.');
    };
    await using server = await environmentClient(new TalkEnv(), { callerModels });
    await using client = await openEnvClient(server.url);
    expect(await client.reset()).toEqual(errorFrame('FACTORY_ERROR', /role judge is bound to the policy/));
    expect((await client.ask({ type: 'state' })).type).toBe('state');
  });

  it('answers the frames of a session in order', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    for (const text of ['a;', 'b;', 'c;', 'done;']) {
      if (text === 'a;') client.send({ type: 'reset' });
      client.send({ type: 'step', data: { text } });
    }
    const answers = [await client.next(), await client.next(), await client.next(), await client.next(), await client.next()];
    expect(answers.map(({ data }) => data.observation.text)).toEqual(['', ' you said a;', ' you said b;', ' you said c;', '']);
  });

  it('answers any text by one frame, and the session lives on', async () => {
    await using server = await environmentClient(new TalkEnv());
    await using client = await openEnvClient(server.url);
    const data = fc.oneof(
      fc.anything(),
      fc.record({ text: fc.oneof(fc.string(), fc.anything()), seed: fc.anything(), example_id: fc.anything() }, { requiredKeys: [] }),
    );
    const type = fc.constantFrom('reset', 'step', 'state', 'mcp', '__proto__', '', 1);
    const frame = fc.oneof(
      fc.string(),
      fc.json(),
      fc.record({ type, data }).map((value) => JSON.stringify(value)),
    );
    await fc.assert(
      fc.asyncProperty(frame, async (text) => {
        const answer: Answer = await client.ask(text);
        expect(['observation', 'state', 'error']).toContain(answer.type);
        expect(answer.data).toBeInstanceOf(Object);
      }),
      { numRuns: 300 },
    );
    expect((await client.reset()).type).toBe('observation');
    expect(server.failures).toEqual([]);
  });
});
