import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { ConfigError, PolicyError } from '../../../src/core/errors.ts';
import { until } from '../../transport/loopback.ts';
import { TalkEnv } from '../environment/environment-client.ts';
import { type Answered, BASE_URL, run, serveWire, WireClient } from './wire-client.ts';

/** A policy that answers when it is released, and how many turns wait for it. */
function heldPolicy() {
  const released = Promise.withResolvers<void>();
  const held = { waiting: 0, release: released.resolve, script: { turns: () => (held.waiting++, released.promise.then(() => 'done;')) } };
  return held;
}

const CANCELLED = { deltas: [], reply: { success: false, error: 'Cancelled: rollout aborted' } };
const refused = (error: RegExp) => ({ deltas: [], reply: { success: false, error: expect.stringMatching(error) as string } });

function traceOf({ deltas: [delta] }: Answered) {
  return { ...delta!, ...delta!.set };
}

describe('startVerifiersServer', () => {
  it('plays a run and answers with its messages, tokens, calls, rewards and metrics', async () => {
    await using served = await serveWire();
    const answered = await served.client.ask('run', run());
    const { nodes, calls, open, errors, set } = answered.deltas[0]!;
    const bytes = (of: string) => [...Buffer.from(of)];
    expect(nodes.map(({ message, sampled, token_ids: ids }) => [message.role, message.content, sampled, ids])).toEqual([
      ['user', 'Talk about 1.', false, bytes('Talk about 1.')],
      ['assistant', 'a;', true, bytes('a;')],
      ['user', ' you said a;', false, bytes(' you said a;')],
      ['assistant', 'done;', true, bytes('done;')],
    ]);
    expect(nodes.map(({ logprobs }) => logprobs)).toEqual([[], [-1, -1], [], [-1, -1, -1, -1, -1]]);
    expect(calls).toMatchObject([
      { node: 1, model: 'policy', finish_reason: 'stop', usage: { completion_tokens: 2 }, sampling: { temperature: 1, top_p: 1 } },
      { node: 3, model: 'policy', finish_reason: 'stop', usage: { completion_tokens: 5 } },
    ]);
    expect(open.task).toEqual({ type: 'VfSearchTask', data: { example_id: 'row-1' }, key: 'row-1', hash: 'row-1' });
    expect({ errors, set }).toMatchObject({
      errors: [],
      set: {
        rewards: { turns: { score: 2, weight: 1 } },
        metrics: { chars: 7 },
        ok: true,
        is_completed: true,
        stop_condition: 'completed',
        is_timeout: false,
      },
    });
    expect(answered.reply).toMatchObject({
      success: true,
      error: null,
      head: { env: { id: 'talk' }, ok: true, errors: [] },
      traces: [{ nodes: 4, calls: 2 }],
    });
    expect(served.failures).toEqual([]);
  });

  it('finds the row by its id before its place, and refuses rows that are not there', async () => {
    await using served = await serveWire();
    const keyOf = async (taskData: object) => traceOf(await served.client.ask('run', run({ task_data: taskData }))).open.task.key;
    expect(await keyOf({ idx: 3 })).toBe('row-3');
    expect(await keyOf({ example_id: 'row-2', idx: 3 })).toBe('row-2');
    expect(await keyOf({ example_id: null, idx: 0 })).toBe('row-0');
    for (const [taskData, why] of [
      [{ example_id: 'row-9' }, /^ConfigError: The row "row-9" \(task_data\.example_id\) is not among the 4 rows of talk \(split eval\)/],
      [{ idx: 4 }, /^ConfigError: task_data\.idx is 4, but talk \(split eval\) has 4 rows, counted from 0\.$/],
      [{}, /^ConfigError: task_data names no row\./],
    ] as const) {
      expect(await served.client.ask('run', run({ task_data: taskData }))).toEqual(refused(why));
    }
  });

  it('numbers the runs of a row, so that they differ where the environment draws', async () => {
    await using served = await serveWire();
    const asked = ['row-1', 'row-1', 'row-2'].map((id) => served.client.ask('run', run({ task_data: { example_id: id } })));
    const ids = (await Promise.all(asked)).map((answered) => traceOf(answered).info['rollout_id']);
    expect(ids).toEqual(['row-1/0', 'row-1/1', 'row-2/0']);
  });

  it('plays at most maxSessions at once, lets others wait, refuses more than may wait, and answers health meanwhile', async () => {
    const held = heldPolicy();
    await using served = await serveWire({ script: held.script, maxSessions: 2, maxWaiting: 3 });
    const runs = Array.from({ length: 6 }, () => served.client.ask('run', run()));
    expect(await runs[5]).toEqual(refused(/^VfError: 2 runs are being played \(--max-sessions 2\) and 3 wait\. Try again later\.$/));
    await until(() => held.waiting === 2);
    expect(await served.client.ask('health')).toEqual({ deltas: [], reply: { success: true, error: null } });
    expect(held.waiting).toBe(2);
    held.release();
    const answered = await Promise.all(runs.slice(0, 5));
    expect(answered.map(({ reply }) => reply.success)).toEqual([true, true, true, true, true]);
  });

  it('cancels a run whose cancellation comes right behind it, one that waits, and no run of another client', async () => {
    const held = heldPolicy();
    await using served = await serveWire({ script: held.script, maxSessions: 1 });
    await using other = new WireClient(served.address);
    const [first, second] = [served.client.ask('run', run(), 'first'), served.client.ask('run', run(), 'second')];
    expect((await other.ask('cancel', { request_id: 'first' })).reply).toEqual({ success: true, error: null, cancelled: false });
    expect((await served.client.ask('cancel', { request_id: 'second' })).reply).toEqual({ success: true, error: null, cancelled: true });
    expect(await second).toEqual(CANCELLED);
    expect((await served.client.ask('cancel', { request_id: 'first' })).reply).toMatchObject({ cancelled: true });
    expect(await first).toEqual(CANCELLED);
    expect((await served.client.ask('cancel', { request_id: 'first' })).reply).toEqual({ success: true, error: null, cancelled: false });
    const direct = served.client.ask('run', run(), 'third');
    expect((await served.client.ask('cancel', { request_id: 'third' })).reply).toMatchObject({ cancelled: true });
    expect(await direct).toEqual(CANCELLED);
    held.release();
    expect((await served.client.ask('run', run())).reply.success).toBe(true);
  });

  it('refuses a second run under an id that is in use', async () => {
    const held = heldPolicy();
    await using served = await serveWire({ script: held.script });
    void served.client.ask('run', run(), 'same');
    await until(() => held.waiting === 1);
    expect(await served.client.ask('run', run(), 'same')).toEqual(refused(/^ConfigError: A run with the request id "same" is under way/));
  });

  it('stops the episodes of a client that has gone, once an answer finds nobody', async () => {
    let isStopped = false;
    const environment = new TalkEnv({
      onStep: (kept, signal) => (kept === 'hang;' ? new Promise<never>(() => signal.addEventListener('abort', () => (isStopped = true))) : undefined),
    });
    const answers: ((turn: string) => void)[] = [];
    const turns = ({ key }: { readonly key: string | null }) =>
      key === 'row-1/0' ? 'hang;' : new Promise<string>((resolve) => answers.push(resolve));
    await using served = await serveWire({ environment, script: { turns } });
    {
      await using leaving = new WireClient(served.address);
      for (let i = 0; i < 900; i++) void leaving.ask('run', run());
      await until(() => answers.length === 899);
    }
    // Its socket needs a moment to learn that the client has gone; answers before that are lost in silence.
    await until(() => {
      answers.pop()?.('done;');
      return isStopped;
    });
    expect((await served.client.ask('health')).reply.success).toBe(true);
    expect(served.failures).toEqual([]);
  });

  it('answers a rollout that failed with its errors, and with null for every reward and metric', async () => {
    await using served = await serveWire({
      script: { turns: () => Promise.reject(new PolicyError('The policy lost hunter2')) },
      redact: (text) => text.replace('hunter2', '***'),
    });
    const answered = await served.client.ask('run', run());
    expect(traceOf(answered)).toMatchObject({
      ok: false,
      errors: [{ type: 'PolicyError', message: 'The policy lost ***' }],
      rewards: { turns: null },
      metrics: { chars: null },
      stop_condition: 'has_error',
    });
    expect(answered.reply).toMatchObject({ success: true, head: { ok: false, errors: [] } });
  });

  it('answers a policy that cannot be reached as a failed rollout, and one that cannot play as an error', async () => {
    const failing = (failure: Error) => ({
      policies: {
        async open() {
          throw failure;
        },
      },
    });
    await using down = await serveWire(failing(new PolicyError('The policy server cannot be reached')));
    const answered = await down.client.ask('run', run());
    expect(traceOf(answered)).toMatchObject({
      ok: false,
      errors: [{ type: 'PolicyError', message: 'The policy server cannot be reached' }],
      calls: [],
    });
    expect(answered.deltas[0]!.nodes).toMatchObject([{ message: { role: 'user', content: 'Talk about 1.' }, sampled: false }]);
    await using unfit = await serveWire(failing(new ConfigError('It serves no model policy')));
    expect(await unfit.client.ask('run', run())).toEqual(refused(/^ConfigError: It serves no model policy$/));
    await using broken = await serveWire(failing(new TypeError('a bug')));
    expect(await broken.client.ask('run', run())).toEqual(refused(/^TypeError: a bug$/));
    expect([down.failures, unfit.failures, broken.failures.map(String)]).toEqual([[], [], ['TypeError: a bug']]);
  });

  it('scores each run alone where rewards are the group’s', async () => {
    await using served = await serveWire({ environment: new TalkEnv({ hasGroupRewards: true }) });
    const answered = await Promise.all([served.client.ask('run', run()), served.client.ask('run', run())]);
    expect(answered.map((each) => traceOf(each).rewards)).toEqual([{ share: { score: 1, weight: 1 } }, { share: { score: 1, weight: 1 } }]);
  });

  it('gives messages without tokens where the policy chats', async () => {
    await using served = await serveWire({ script: { kind: 'chat' } });
    const { nodes, calls } = traceOf(await served.client.ask('run', run({ client: { base_url: BASE_URL } })));
    expect(nodes.map(({ message, token_ids: ids, sampled }) => [message.role, ids, sampled])).toEqual([
      ['user', [], false],
      ['assistant', [], true],
      ['user', [], false],
      ['assistant', [], true],
    ]);
    expect(calls.map(({ node }) => node)).toEqual([1, 3]);
  });

  it('lists the rows in pages', async () => {
    await using served = await serveWire();
    expect((await served.client.ask('tasks', { offset: 1, limit: 2 })).reply).toEqual({
      success: true,
      error: null,
      env_id: 'talk',
      split: 'eval',
      total: 4,
      tasks: [1, 2].map((i) => ({ example_id: `row-${i}`, prompt: [{ role: 'user', content: `Talk about ${i}.` }], answer: `${i}`, info: {} })),
    });
    expect((await served.client.ask('tasks', { offset: 9 })).reply).toMatchObject({ tasks: [], total: 4 });
    expect((await served.client.ask('tasks')).reply['tasks']).toHaveLength(4);
    expect(await served.client.ask('tasks', { limit: 1001 })).toEqual(refused(/^ValueError: limit must be <= 1000$/));
  });

  it.each([
    ['a method that it lacks', 'reset', encode({}), /^unknown method 'reset'$/],
    ['what is not MessagePack', 'run', Buffer.from([0xc1]), /^ValueError: the payload is not MessagePack that can be read: .*0xc1/],
    ['half a payload', 'run', encode(run()).subarray(0, 20), /^ValueError: .* it ends too early$/],
    ['a list', 'run', encode([1]), /^ValueError: the payload must be an object$/],
    [
      'a run without a model',
      'run',
      encode(run({ model: undefined })),
      /^ValueError: (the payload must have the key "model"|model must be a string)$/,
    ],
    ['a cancellation without an id', 'cancel', encode({}), /^ValueError: the payload must have the key "request_id"$/],
    ['a map whose key is a list', 'run', Buffer.from([0x81, 0x90, 0x01]), /^ValueError: the payload cannot be decoded: /],
    [
      'a policy beyond this machine',
      'run',
      encode(run({ client: { base_url: 'http://203.0.113.1/v1' } })),
      /^ConfigError: client\.base_url is .*--allow-policy-host/,
    ],
  ] as const)('answers %s with an error', async (_, method, payload, error) => {
    await using served = await serveWire();
    expect(await served.client.askBytes(method, payload)).toEqual(refused(error));
    expect((await served.client.ask('health')).reply.success).toBe(true);
    expect(served.failures).toEqual([]);
  });

  it('drops messages of another number of frames', async () => {
    await using served = await serveWire();
    for (const frames of [[''], ['a'], ['a', 'health'], ['a', 'health', encode({}), 'more']]) served.client.send(frames);
    expect((await served.client.ask('health')).reply.success).toBe(true);
  });

  it('answers the runs under way as it closes', async () => {
    const held = heldPolicy();
    const served = await serveWire({ script: held.script, maxSessions: 1 });
    const runs = [served.client.ask('run', run()), served.client.ask('run', run())];
    await until(() => held.waiting === 1);
    await served.close();
    expect(await Promise.all(runs)).toEqual([CANCELLED, CANCELLED]);
    await served.client[Symbol.asyncDispose]();
  });
});
