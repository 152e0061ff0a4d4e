import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, EnvironmentError } from '../../../src/core/errors.ts';
import { type Answer, environmentClient, stillTime, TalkEnv, tokenizer } from './environment-client.ts';

const ids = async (text: string) => [...(await tokenizer.encode(text)).ids];

describe('POST /v1/episodes by token ids', () => {
  it('plays an episode to a rollout whose tokens are those that were exchanged', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [first] = await server.begin(['row-0'], 'tokens', { model: 'theirs', version: 7 });
    expect(first).toMatchObject({ turn: 0, done: false, stop: [';'], append_ids: await ids('Talk about 0.') });
    expect(first.context_length).toBe(first.append_ids.length);
    const hello = await server.sample(first, 'hello;');
    const [second] = await server.step(hello);
    expect(second).toMatchObject({ turn: 1, done: false, append_ids: [...(await ids('hello;')), ...(await ids(' you said hello;'))] });
    expect(second.context_length).toBe(first.context_length + second.append_ids.length);
    const [last] = await server.step(await server.sample(second, 'done;'));
    const { rollout } = last;
    expect(rollout).toMatchObject({
      example_id: 'row-0',
      rollout_id: 'row-0/0',
      group_id: 'row-0',
      reward: 2,
      error: null,
      stop_condition: 'completed',
      is_truncated: false,
      num_turns: 2,
      metrics: { turns: 2, chars: 11 },
      policy: { model: 'theirs', version: 7 },
      tokenizer_hash: 'sha256:nano',
      prompt_length: first.context_length,
      token_ids: [...first.append_ids, ...second.append_ids, ...(await ids('done;'))],
    });
    expect(rollout.segments.map((segment: Answer) => segment.kind)).toEqual(['prompt', 'model', 'observation', 'model']);
    const sampled = rollout.logprobs.flatMap((value: number | null, i: number) => (rollout.loss_mask[i] === 1 ? [value] : []));
    const given = [...(await ids('hello;')), ...(await ids('done;'))].length;
    expect(sampled).toHaveLength(given);
    expect(sampled[0]).toBe(-0.25);
    expect(rollout.logprobs.filter((value: unknown) => value === null)).toHaveLength(rollout.token_ids.length - given);
  });

  it('cuts a sample that goes past its stop string', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [first] = await server.begin(['row-0']);
    const [second] = await server.step(await server.sample(first, 'hello; and more; words'));
    expect(await tokenizer.decode(Int32Array.from(second.append_ids))).toMatch(/^hello; ?you said hello;$/);
  });

  it('answers the same step again in the same way, and another sample for it with an error, also after the end', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [first] = await server.begin(['row-0']);
    const hello = await server.sample(first, 'hello;');
    const [second] = await server.step(hello);
    expect(await server.step(hello)).toEqual([second]);
    expect(await server.step({ ...hello, logprobs: (hello as Answer).logprobs.map(() => -9) })).toMatchObject([
      { error: { type: 'TurnError', retryable: false } },
    ]);
    const done = await server.sample(second, 'done;');
    const [last] = await server.step(done);
    expect(await server.step(done)).toEqual([last]);
    expect(await server.step(hello)).toEqual([second]);
    expect(await server.step({ episode_id: first.episode_id })).toEqual([last]);
    expect(await server.step(await server.sample(second, 'other;'))).toMatchObject([{ error: { type: 'TurnError' } }]);
    expect(await server.step({ ...done, turn: 5 })).toMatchObject([{ error: { message: expect.stringMatching(/turn 5.*has ended/) as string } }]);
  });

  it('gives two requests that send the same step at once one answer', async () => {
    let steps = 0;
    await using server = await environmentClient(
      new TalkEnv({
        onStep: async () => {
          steps += 1;
          await delay(20);
        },
      }),
    );
    const [first] = await server.begin(['row-0']);
    const hello = await server.sample(first, 'hello;');
    const [[a], [b], [c, d]] = await Promise.all([server.step(hello), server.step(hello), server.step(hello, hello)]);
    expect([b, c, d]).toEqual([a, a, a]);
    expect(steps).toBe(1);
  });

  it('answers a bad entry in its place while the others go on', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [a, b] = await server.begin(['row-0', 'row-1']);
    const good = await server.sample(a, 'hello;');
    const sample = await server.sample(b, 'hello;');
    const answers = await server.step(
      { ...sample, token_ids: [1] },
      good,
      { ...sample, token_ids: [1e6, 2], logprobs: [-1, -1] },
      { ...sample, token_ids: [1.5], logprobs: [-1] },
      { ...sample, token_ids: Array(2000).fill(5), logprobs: Array(2000).fill(-1) },
      { ...sample, turn: 1 },
      { episode_id: 'nobody', turn: 0, token_ids: [], logprobs: [] },
      { ...sample, foo: 1 },
      { episode_id: b.episode_id, turn: 0, text: 'hello;' },
      { turn: 0 },
      { ...sample, logprobs: ['a', 'b'] },
    );
    expect(answers.map((answer) => answer.error?.type ?? answer.turn)).toEqual([
      'SampleError',
      1,
      'SampleError',
      'SampleError',
      'SampleError',
      'TurnError',
      'UnknownEpisodeError',
      'SampleError',
      'SampleError',
      'SampleError',
      'SampleError',
    ]);
    expect(answers[0].error.message).toMatch(/token_ids has 1 entries and logprobs has \d+/);
    expect(answers[2].error.message).toMatch(/ids from 0 to/);
    // Nothing was taken, so the right sample still counts.
    expect(await server.step(sample)).toMatchObject([{ turn: 1, done: false }]);
  });

  it.each([
    ['above 0', 0.5],
    ['null', null],
    ['NaN', NaN],
    ['-Infinity', -Infinity],
  ])('fails the rollout of a log-prob that is %s, and no other', async (_, value) => {
    await using server = await environmentClient(new TalkEnv());
    const [a, b] = await server.begin(['row-0', 'row-1']);
    const bad = await server.sample(a, 'hello;');
    const logprobs = (bad as Answer).logprobs.map((own: number, i: number) => (i === 1 ? value : own));
    // As Python writes it.
    const text = JSON.stringify({ episodes: [{ ...bad, logprobs: '@' }, await server.sample(b, 'say "NaN, -Infinity";')] });
    const [status, { episodes }] = await server.post('/v1/episodes/step', text.replace('"@"', `[${logprobs.map(String).join(',')}]`));
    expect(status).toBe(200);
    expect(episodes[0]).toMatchObject({ done: true, rollout: { reward: null, stop_condition: 'has_error', error: { type: 'NumericPolicyError' } } });
    expect(episodes[1]).toMatchObject({ turn: 1, done: false });
  });

  it('stops at the window that the caller names, as against a server', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [first] = await server.begin(['row-0'], 'tokens', { max_model_len: 12 });
    const [last] = await server.step(
      await server.sample(first, 'a b c d e f g h i j k;', {}).then((s: Answer) => ({
        ...s,
        token_ids: s.token_ids.slice(0, first.max_new_tokens),
        logprobs: s.logprobs.slice(0, first.max_new_tokens),
        finish_reason: 'length',
      })),
    );
    expect(last).toMatchObject({ done: true, rollout: { stop_condition: 'prompt_too_long', is_truncated: true, error: null } });
  });

  it('ends an episode whose prompt leaves the caller no room as failed, without a reward', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [only] = await server.begin(['row-0'], 'tokens', { max_model_len: 2 });
    const error = { type: 'UnplayedError', retryable: false, message: expect.stringMatching(/window.*shorten the prompts/) };
    expect(only).toMatchObject({ done: true, rollout: { stop_condition: 'prompt_too_long', reward: null, num_turns: 0, error } });
  });

  it('records a failure of the environment as one, without its secrets', async () => {
    const failing = new TalkEnv({
      onStep: () => {
        throw new EnvironmentError('The retriever at hunter2 is down', { retryable: true });
      },
    });
    await using server = await environmentClient(failing);
    const [first] = await server.begin(['row-0']);
    const [last] = await server.step(await server.sample(first, 'hello;'));
    expect(last.rollout).toMatchObject({
      reward: null,
      metrics: {},
      error: { type: 'EnvironmentError', message: 'The retriever at *** is down', retryable: true, phase: 'environment' },
    });
    expect(last.rollout.token_ids.slice(0, first.context_length)).toEqual(first.append_ids);
  });

  it('sends the context once, not once per turn', async () => {
    await using server = await environmentClient(new TalkEnv());
    let [turn] = await server.begin(['row-0']);
    const sizes: number[] = [];
    for (let k = 0; k < 64; k++) {
      [turn] = await server.step(await server.sample(turn, 'a few words more;'));
      sizes.push(JSON.stringify(turn).length);
    }
    expect(turn.context_length).toBeGreaterThan(64 * 10);
    // Only the numbers of the turn and of the context's length grow.
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(3);
  });

  it('tells episodes apart, however their steps are ordered and batched', async () => {
    await using server = await environmentClient(new TalkEnv());
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.integer({ min: 0, max: 99 }), { maxLength: 4 }), { minLength: 1, maxLength: 6 }),
        fc.boolean(),
        async (plans, batched) => {
          let turns = await server.begin(plans.map((_, i) => `row-${i % 4}`));
          const ended: Answer[] = [];
          for (let k = 0; turns.length > 0; k++) {
            const entries = await Promise.all(
              turns.map(async (turn) =>
                server.sample(
                  turn,
                  plans[turn.plan ?? turns.indexOf(turn)]![k] === undefined ? 'done;' : `w${plans[turn.plan ?? turns.indexOf(turn)]![k]};`,
                ),
              ),
            );
            const plan = turns.map((turn, i) => turn.plan ?? i);
            const answers = batched ? await server.step(...entries) : (await Promise.all(entries.map((entry) => server.step(entry)))).flat();
            const numbered = answers.map((answer, i) => ({ ...answer, plan: plan[i] }));
            ended.push(...numbered.filter((answer) => answer.done));
            turns = numbered.filter((answer) => !answer.done);
          }
          for (const { plan, rollout } of ended) {
            const text = await tokenizer.decode(Int32Array.from(rollout.token_ids));
            const expected = plans[plan]!.map((word) => `w${word}; you said w${word};`).join('');
            expect(text.replaceAll(' ', '')).toBe(`Talk about ${plan % 4}.${expected}done;`.replaceAll(' ', ''));
          }
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe('POST /v1/episodes by messages', () => {
  it('gives the whole conversation and takes texts', async () => {
    await using server = await environmentClient(new TalkEnv(), { tokenizer: null });
    const [first] = await server.begin(['row-1'], 'chat');
    expect(first).toMatchObject({ turn: 0, messages: [{ role: 'user', content: 'Talk about 1.' }], stop: [';'] });
    const [second] = await server.step({ episode_id: first.episode_id, turn: 0, text: 'hello; more', finish_reason: 'stop' });
    expect(second.messages.map((message: Answer) => message.content)).toEqual(['Talk about 1.', 'hello;', ' you said hello;']);
    const [last] = await server.step({ episode_id: first.episode_id, turn: 1, text: 'done;' });
    expect(last.rollout).toMatchObject({ reward: 2, messages: [...second.messages, { role: 'assistant', content: 'done;' }] });
    expect(last.rollout).not.toHaveProperty('token_ids');
  });

  it('refuses token ids where the server has no tokenizer, with the remedy', async () => {
    await using server = await environmentClient(new TalkEnv(), { tokenizer: null });
    const [status, body] = await server.post('/v1/episodes', { policy: { kind: 'tokens' }, episodes: [{ example_id: 'row-0' }] });
    expect([status, body.error.message]).toEqual([422, expect.stringContaining('--tokenizer DIR')]);
  });
});

describe('groups that are scored together', () => {
  const group = (n: number) => Array.from({ length: n }, () => ({ example_id: 'row-0', group_id: 'g' }));

  it('are answered together when the last member has ended', async () => {
    await using server = await environmentClient(new TalkEnv({ hasGroupRewards: true }));
    const [a, b] = await server.begin(group(2));
    const alone = server.step(await server.sample(a, 'done;'));
    const [next] = await server.step(await server.sample(b, 'hello;'));
    const [both] = await Promise.all([alone, server.step(await server.sample(next, 'done;'))]).then(([[x], [y]]) => [[x, y]] as const);
    expect(both.map(({ rollout }: Answer) => [rollout.rollout_id, rollout.group_id, rollout.reward])).toEqual([
      ['row-0/0', 'g', 1 / 3],
      ['row-0/1', 'g', 2 / 3],
    ]);
  });

  it('do not hold up the request that brings the others their next turns', async () => {
    await using server = await environmentClient(new TalkEnv({ hasGroupRewards: true }));
    const [a, b] = await server.begin(group(2));
    const [pending, next] = await server.step(await server.sample(a, 'done;'), await server.sample(b, 'hello;'));
    expect([pending.error.type, pending.error.retryable, next.turn]).toEqual(['GroupPendingError', true, 1]);
    const [first, second] = await server.step({ episode_id: a.episode_id }, await server.sample(next, 'done;'));
    expect([first.rollout.reward, second.rollout.reward]).toEqual([1 / 3, 2 / 3]);
  });

  it('answer a member alone with an error after the step timeout, and with its reward once the group is whole', async () => {
    using time = stillTime();
    await using server = await environmentClient(new TalkEnv({ hasGroupRewards: true }), { stepTimeoutMs: 50 });
    const [a, b] = await server.begin(group(2));
    const done = await server.sample(a, 'done;');
    const clock = setInterval(() => time.pass(50), 1);
    let late: Answer;
    // As long as it is still being played, it is late for that reason.
    do [late] = await server.step(done);
    while (late.error.type === 'StepTimeoutError');
    clearInterval(clock);
    expect(late).toMatchObject({ episode_id: a.episode_id, error: { type: 'GroupPendingError', retryable: true } });
    await server.step(await server.sample(b, 'done;'));
    expect(await server.step(done)).toMatchObject([{ done: true, rollout: { reward: 0.5 } }]);
  });

  it('score the others when a member is deleted', async () => {
    await using server = await environmentClient(new TalkEnv({ hasGroupRewards: true }));
    const [a, b] = await server.begin(group(2));
    const alone = server.step(await server.sample(a, 'done;'));
    await fetch(`${server.url}/v1/episodes/${b.episode_id}`, { method: 'DELETE' });
    expect(await alone).toMatchObject([{ done: true, rollout: { reward: 1 } }]);
  });

  it('answer each member at its own end where the rubric scores members alone', async () => {
    await using server = await environmentClient(new TalkEnv(), { stepTimeoutMs: 5_000 });
    const [a, b] = await server.begin(group(2));
    const [ended, next] = await server.step(await server.sample(a, 'done;'), await server.sample(b, 'hello;'));
    expect([ended.rollout.reward, ended.rollout.group_id, next.turn]).toEqual([1, 'g', 1]);
  });

  it('begin in one request, and have one row', async () => {
    await using server = await environmentClient(new TalkEnv({ hasGroupRewards: true }));
    await server.begin(group(2));
    const again = await server.post('/v1/episodes', { policy: { kind: 'tokens' }, episodes: group(1) });
    expect(again[0]).toBe(422);
    const mixed = [
      { example_id: 'row-0', group_id: 'h' },
      { example_id: 'row-1', group_id: 'h' },
    ];
    expect((await server.post('/v1/episodes', { policy: { kind: 'tokens' }, episodes: mixed }))[1].error.message).toMatch(/A group has one row/);
  });
});

describe('limits of episodes', () => {
  it('answers a step that takes too long with an error, and with its answer when it is asked again', async () => {
    const gate = Promise.withResolvers<void>();
    using time = stillTime();
    const onStep = () => (time.pass(30), gate.promise);
    await using server = await environmentClient(new TalkEnv({ onStep }), { stepTimeoutMs: 30 });
    const [first] = await server.begin(['row-0']);
    const hello = await server.sample(first, 'hello;');
    expect(await server.step(hello)).toMatchObject([{ error: { type: 'StepTimeoutError', retryable: true } }]);
    gate.resolve();
    expect(await server.step(hello)).toMatchObject([{ turn: 1, done: false }]);
  });

  it('frees an episode that nobody comes back to', async () => {
    await using server = await environmentClient(new TalkEnv(), { idleTimeoutMs: 60, maxSessions: 1 });
    const [first] = await server.begin(['row-0']);
    await expect.poll(async () => (await server.get('/health'))[1].episodes).toBe(0);
    expect(await server.step(await server.sample(first, 'hello;'))).toMatchObject([{ error: { type: 'UnknownEpisodeError' } }]);
    expect(await server.begin(['row-0'])).toHaveLength(1);
  });

  it('keeps an episode whose environment is at work for longer than an episode may be idle', async () => {
    const gate = Promise.withResolvers<void>();
    await using server = await environmentClient(new TalkEnv({ onStep: () => gate.promise }), { idleTimeoutMs: 60 });
    const [first] = await server.begin(['row-0']);
    const answer = server.step(await server.sample(first, 'hello;'));
    // Begun later, it is idle for a shorter time.
    await server.begin(['row-1']);
    await expect.poll(async () => (await server.get('/health'))[1].episodes).toBe(1);
    gate.resolve();
    expect(await answer).toMatchObject([{ turn: 1, done: false }]);
  });

  it('answers 503 with Retry-After where no session is left, and begins none of the request', async () => {
    await using server = await environmentClient(new TalkEnv(), { maxSessions: 2 });
    const body = JSON.stringify({ policy: { kind: 'chat' }, episodes: [{ example_id: 'row-0' }, { example_id: 'row-1' }, { example_id: 'row-2' }] });
    const refused = await fetch(`${server.url}/v1/episodes`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect((await server.get('/health'))[1].episodes).toBe(0);
    await server.begin(['row-0', 'row-1']);
  });

  it('forgets a deleted episode', async () => {
    await using server = await environmentClient(new TalkEnv());
    const [first] = await server.begin(['row-0']);
    const remove = () => fetch(`${server.url}/v1/episodes/${first.episode_id}`, { method: 'DELETE' }).then((response) => response.status);
    expect([await remove(), await remove()]).toEqual([200, 404]);
    expect((await server.get('/health'))[1].episodes).toBe(0);
  });

  it('refuses rows that the split lacks before anything begins', async () => {
    await using server = await environmentClient(new TalkEnv(), { split: 'train' });
    const [status, body] = await server.post('/v1/episodes', {
      policy: { kind: 'tokens' },
      episodes: [{ example_id: 'row-0' }, { example_id: 'row-3' }],
    });
    expect([status, body.error.message]).toEqual([
      422,
      expect.stringMatching(/^episodes\[1\]\.example_id: "row-3" is not among the 2 rows of talk-train \(split train\)/),
    ]);
    expect((await server.get('/health'))[1].episodes).toBe(0);
  });

  it('refuses a role that is bound to a policy which the caller owns', async () => {
    const callerModels = () => {
      throw new ConfigError('The role judge is bound to the policy, which the caller owns.');
    };
    await using server = await environmentClient(new TalkEnv(), { callerModels });
    const [status, body] = await server.post('/v1/episodes', { policy: { kind: 'chat' }, episodes: [{ example_id: 'row-0' }] });
    expect([status, body.error]).toEqual([422, { type: 'ValidationError', message: expect.stringMatching(/role judge/) as string }]);
  });

  it('ends while episodes wait for their callers', async () => {
    const server = await environmentClient(new TalkEnv());
    await server.begin(['row-0', 'row-1']);
    await server[Symbol.asyncDispose]();
    expect(server.failures).toEqual([]);
  });
});
