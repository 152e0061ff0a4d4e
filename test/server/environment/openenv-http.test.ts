import { describe, expect, it } from 'vitest';
import { EnvironmentError } from '../../../src/core/errors.ts';
import { until } from '../../transport/loopback.ts';
import { environmentClient, stillTime, TalkEnv } from './environment-client.ts';

const never = (_: string, signal: AbortSignal) =>
  new Promise<void>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));

describe('POST /reset and /step', () => {
  it('play an episode that its id names', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [status, first] = await server.post('/reset', { seed: 6 });
    expect([status, first]).toEqual([
      200,
      {
        observation: { prompt: [{ role: 'user', content: 'Talk about 2.' }], text: '', stop: [';'], stop_condition: null, metrics: {} },
        reward: null,
        done: false,
        metadata: { episode_id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string, example_id: 'row-2', max_new_tokens: 200 },
      },
    ]);
    const { episode_id } = first.metadata;
    const [, second] = await server.post('/step', { action: { text: 'hi;' }, episode_id, timeout_s: 3, request_id: 'x' });
    expect(second.observation.text).toBe(' you said hi;');
    expect(await server.get(`/state?episode_id=${episode_id}`)).toEqual([200, { episode_id, step_count: 1, example_id: 'row-2', done: false }]);
    const [, last] = await server.post('/step', { action: { text: 'done;' }, episode_id });
    expect(last).toMatchObject({ reward: 2, done: true, observation: { stop_condition: 'completed', metrics: { turns: 2 } } });
    const [gone, { error }] = await server.post('/step', { action: { text: 'more;' }, episode_id });
    expect([gone, error.type, error.message]).toEqual([404, 'NotFoundError', expect.stringMatching(/it has ended.*POST \/reset begins one/)]);
    expect((await server.get('/health'))[1].episodes).toBe(0);
    expect(server.failures).toEqual([]);
  });

  it('play the row that is next for the sessions of all protocols', async () => {
    await using server = await environmentClient(new TalkEnv());
    const rows = [];
    for (let i = 0; i < 5; i++) rows.push((await server.post('/reset', {}))[1].metadata.example_id);
    expect(rows).toEqual(['row-0', 'row-1', 'row-2', 'row-3', 'row-0']);
  });

  it('refuse an episode_id that is being played, and take it again after the end', async () => {
    await using server = await environmentClient(new TalkEnv());
    expect((await server.post('/reset', { episode_id: 'mine' }))[0]).toBe(200);
    const [status, { error }] = await server.post('/reset', { episode_id: 'mine' });
    expect([status, error.type]).toEqual([409, 'ConflictError']);
    expect((await server.post('/step', { action: { text: 'done;' }, episode_id: 'mine' }))[1].done).toBe(true);
    expect((await server.post('/reset', { episode_id: 'mine' }))[0]).toBe(200);
    expect((await server.post('/reset', { episode_id: 'other', example_id: 'row-9' }))[0]).toBe(422);
    expect((await server.post('/reset', { episode_id: 'other' }))[0]).toBe(200);
  });

  it.each([
    ['/reset', { example_id: 'row-9' }, 422, /"row-9" is not among the 4 rows/],
    ['/reset', { row: 1 }, 422, /"row"/],
    ['/reset', [], 422, /object/],
    ['/reset', { episode_id: '' }, 422, /episode_id/],
    ['/step', { action: { text: 'hi;' } }, 422, /episode_id/],
    ['/step', { action: 'hi', episode_id: 'mine' }, 422, /action must be an object/],
    ['/step', { action: { text: 'hi;' }, episode_id: 'theirs' }, 404, /No episode "theirs"/],
    ['/step', { action: { text: [] }, episode_id: 'mine' }, 422, /text is an empty list/],
  ])('refuse at %s the body %j', async (path, body, status, message) => {
    await using server = await environmentClient(new TalkEnv());
    await server.post('/reset', { episode_id: 'mine' });
    const [refused, { error }] = await server.post(path, body);
    expect([refused, error.message]).toEqual([status, expect.stringMatching(message)]);
    expect((await server.post('/step', { action: { text: 'done;' }, episode_id: 'mine' }))[1].reward).toBe(1);
    expect(server.failures).toEqual([]);
  });

  it('answer an episode that failed by its error, one that was slow by the limit', async () => {
    using time = stillTime();
    const onStep = (kept: string, signal: AbortSignal) => {
      if (kept.includes('slow')) {
        const played = never(kept, signal);
        time.pass(30);
        return played;
      }
      throw new EnvironmentError('The index is gone');
    };
    await using server = await environmentClient(new TalkEnv({ onStep }), { stepTimeoutMs: 30 });
    for (const [text, message] of [
      ['fail;', /The index is gone. The episode failed and has no reward/],
      ['slow;', /--step-timeout/],
    ] as const) {
      await server.post('/reset', { episode_id: 'mine' });
      const [status, { error }] = await server.post('/step', { action: { text }, episode_id: 'mine' });
      expect([status, error.type, error.message]).toEqual([424, 'EpisodeError', expect.stringMatching(message)]);
      expect((await server.get('/state?episode_id=mine'))[0]).toBe(404);
    }
    expect((await server.get('/health'))[1].episodes).toBe(0);
  });

  it('refuse a second action while the first is being played, and episodes beyond --max-sessions', async () => {
    const asked = Promise.withResolvers<void>();
    const onStep = (kept: string, signal: AbortSignal) => (asked.resolve(), never(kept, signal));
    await using server = await environmentClient(new TalkEnv({ onStep }), { maxSessions: 1 });
    await server.post('/reset', { episode_id: 'mine' });
    const slow = server.post('/step', { action: { text: 'hi;' }, episode_id: 'mine' });
    await asked.promise;
    const [busy, { error }] = await server.post('/step', { action: { text: 'hi;' }, episode_id: 'mine' });
    expect([busy, error.message]).toEqual([409, expect.stringMatching(/still being played/)]);
    const [full, refused] = await server.post('/reset', { episode_id: 'other' });
    expect([full, refused.error.type]).toEqual([503, 'OverloadedError']);
    expect((await server.get('/state?episode_id=mine'))[1].done).toBe(false);
    await server[Symbol.asyncDispose]();
    await slow.catch(() => {});
  });

  it('keep an episode whose environment is at work for longer than an episode may be idle, and count from its answer', async () => {
    const gate = Promise.withResolvers<void>();
    await using server = await environmentClient(new TalkEnv({ onStep: () => gate.promise }), { idleTimeoutMs: 150 });
    await server.post('/reset', { episode_id: 'mine' });
    const answer = server.post('/step', { action: { text: 'hi;' }, episode_id: 'mine' });
    // Begun later, it is idle for a shorter time.
    await server.post('/reset', { episode_id: 'other' });
    await until(async () => (await server.get('/health'))[1].episodes === 1);
    gate.resolve();
    expect(await answer).toMatchObject([200, { done: false }]);
    expect(await server.get('/state?episode_id=mine')).toMatchObject([200, { step_count: 1, done: false }]);
  });

  it('forget an episode that nobody uses', async () => {
    await using server = await environmentClient(new TalkEnv(), { idleTimeoutMs: 30 });
    await server.post('/reset', { episode_id: 'mine' });
    await until(async () => (await server.get('/health'))[1].episodes === 0);
    const [status, state] = await server.get('/state?episode_id=mine');
    expect(status === 404 || state.done).toBe(true);
    expect([404, 424]).toContain((await server.post('/step', { action: { text: 'hi;' }, episode_id: 'mine' }))[0]);
    expect((await server.post('/reset', { episode_id: 'mine' }))[0]).toBe(200);
  });

  it('say that an episode is done which the server no longer has, and take its id again', async () => {
    await using server = await environmentClient(new TalkEnv());
    const { episode_id } = (await server.post('/reset', {}))[1].metadata;
    await fetch(`${server.url}/v1/episodes/${episode_id}`, { method: 'DELETE' });
    expect(await server.get(`/state?episode_id=${episode_id}`)).toEqual([200, { episode_id, step_count: 0, example_id: 'row-0', done: true }]);
    expect((await server.post('/reset', { episode_id }))[0]).toBe(200);
  });
});

describe('what OpenEnv asks about an environment', () => {
  it('an action has exactly one required field, a string', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [, { action, observation, reset_observation: reset, state }] = await server.get('/schema');
    expect(action.required).toEqual(['text']);
    expect(action.properties.text.type).toBe('string');
    expect(Object.keys(observation.properties)).toEqual(['text', 'stop', 'stop_condition', 'metrics']);
    expect(reset.required).toContain('prompt');
    expect(state.required).toEqual(['episode_id', 'step_count']);
    expect(await server.get('/metadata')).toEqual([200, { name: 'talk', description: '4 rows of talk (split eval).', version: '1.2.3' }]);
    expect(await server.get('/state')).toEqual([200, { episode_id: null, step_count: 0 }]);
    expect((await server.get('/state?episode_id=x'))[0]).toBe(404);
  });

  it('its tasks are the rows of the served split', async () => {
    await using server = await environmentClient(new TalkEnv());
    const ask = async (path: string, body: object) => (await server.post(path, { split: 'eval', ...body }))[1];
    const ids = async (body: object) => (await ask('/talk/task_range', body)).tasks.map((task: { example_id: string }) => task.example_id);
    expect((await server.get('/list_environments'))[1]).toEqual(['talk']);
    expect((await server.get('/TALK/splits'))[1]).toEqual([{ name: 'eval', type: 'validation' }]);
    expect(await ask('/talk/num_tasks', {})).toEqual({ num_tasks: 4 });
    const { tasks, env_name: name } = await ask('/talk/tasks', {});
    expect([tasks.length, name]).toEqual([4, 'talk']);
    expect((await ask('/talk/task', { index: 1 })).task).toEqual(tasks[1]);
    expect(tasks[1]).toEqual({ example_id: 'row-1', prompt: [{ role: 'user', content: 'Talk about 1.' }], answer: '1', info: {} });
    expect([await ids({}), await ids({ start: 1, stop: 3 }), await ids({ start: -1, stop: null }), await ids({ start: 3, stop: 1 })]).toEqual([
      ['row-0', 'row-1', 'row-2', 'row-3'],
      ['row-1', 'row-2'],
      ['row-3'],
      [],
    ]);
  });

  it.each([
    ['/talk/task', { split: 'eval', index: 4 }, 400, /index is 4. Send a whole number from 0 to 3/],
    ['/talk/task', { split: 'eval', index: -1 }, 400, /from 0 to 3/],
    ['/talk/task', { split: 'eval' }, 422, /index/],
    ['/talk/num_tasks', { split: 'train' }, 422, /serves the split "eval" \(--split\)/],
    ['/other/num_tasks', { split: 'eval' }, 404, /It serves "talk"/],
    ['/v1/tasks', {}, 405, /GET/],
  ])('refuses at %s the body %j', async (path, body, status, message) => {
    await using server = await environmentClient(new TalkEnv());
    const [refused, { error }] = await server.post(path, body);
    expect([refused, error.message]).toEqual([status, expect.stringMatching(message)]);
  });
});
