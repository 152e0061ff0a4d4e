import { describe, expect, test } from 'vitest';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { judgeBy } from '../../src/core/builtin-judges.ts';
import { CancelledError, ModelError, PolicyError, TimeoutError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import type { Model, ModelRequest } from '../../src/core/model.ts';
import { clientModel } from '../../src/models/client-model.ts';
import { openRoleModels, type RoleBinding } from '../../src/models/role-models.ts';
import { until } from '../transport/loopback.ts';
import { chatClient, chatServer } from './chat-server.ts';

const forever = new AbortController().signal;
const question: readonly Message[] = [{ role: 'user', content: 'Is 4 even?' }];
const ask = (model: Model, more: Partial<ModelRequest> = {}) => model.generate(question, { maxTokens: 8, signal: forever, ...more });
const unavailable = { status: 503, body: { error: { message: 'overloaded' } } };

/** A model of this process. */
const answering = (generate: (request: ModelRequest) => string | Promise<string>): Model => ({
  name: 'builtin',
  generate: async (_, request) => ({
    text: await generate(request),
    usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null },
    finish: 'stop',
    version: null,
  }),
});

async function failureOf(call: Promise<unknown>): Promise<ModelError> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ModelError);
  return error as ModelError;
}

const serverModel = (client: PolicyClient): Model => clientModel(() => client, { name: client.name, isPolicy: false });
const quick: Partial<RoleBinding> = { baseDelayMs: 1 };

describe('openRoleModels', () => {
  test.each([
    [
      { maxTokens: 8 },
      /^The environment asked the model of role judge wrongly: signal must be an AbortSignal, got \w+\. Call generate\(messages, \{ maxTokens, signal \}\)/,
    ],
    [{ signal: forever }, /^The environment asked the model of role judge wrongly: maxTokens must be a whole number of at least 1/],
    [undefined, /^The environment asked the model of role judge wrongly: signal must be/],
  ])('name the role and the form of a call to an environment that asks with %j', async (request, message) => {
    await using roles = await openRoleModels({ judge: { model: answering(() => 'yes') } });
    await expect(roles.models['judge']!.generate(question, request as ModelRequest)).rejects.toThrow(message);
  });

  test.each([
    [
      { usage: { inputTokens: 1, outputTokens: 1 } },
      /^The model of role judge \(own\) failed: .*its reply must be \{ text, usage: .*; usage\.promptTokens is/,
    ],
    [{ text: 5 }, /; text is/],
    [{ finish: 'done' }, /; finish is "done"$/],
  ])('count nothing of a reply of another form: %j', async (wrong, message) => {
    const right = { text: 'yes', usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop', version: null };
    const model = { name: 'own', generate: async () => ({ ...right, ...wrong }) } as unknown as Model;
    await using roles = await openRoleModels({ judge: { model } });
    expect((await failureOf(ask(roles.models['judge']!))).message).toMatch(message);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 0, failures: 1, requests: 0 });
  });

  test('gives every one of 512 calls at once its own answer, with no more than the limit under way', async () => {
    await using server = await chatServer(({ messages }) => `row ${messages.at(-1)!.content}`);
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), maxConcurrent: 64 } });
    const rows = Array.from({ length: 512 }, (_, row) => String(row));
    const calls = rows.map((content) => roles.models['judge']!.generate([{ role: 'user', content }], { maxTokens: 8, signal: forever }));
    expect((await Promise.all(calls)).map(({ text }) => text)).toEqual(rows.map((row) => `row ${row}`));
    expect(server.mostAtOnce).toBeLessThanOrEqual(64);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 512, requests: 512, failures: 0 });
  });

  test('records every answered call with the rollout that asked, and with no other', async () => {
    await using server = await chatServer((_, i) => `yes ${i}`);
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client) } });
    const [first, second] = [roles.forRollout('1/0'), roles.forRollout('1/1')];
    await ask(first.models['judge']!);
    await ask(second.models['judge']!);
    await ask(first.models['judge']!, { maxTokens: 9 });
    await ask(roles.models['judge']!);
    expect(first.asked.map(({ text }) => text)).toEqual(['yes 0', 'yes 2']);
    expect(second.asked).toEqual([
      {
        role: 'judge',
        model: 'judge-model',
        version: null,
        usage: { promptTokens: 7, completionTokens: 3, cachedTokens: null },
        finish: 'stop',
        ms: expect.any(Number),
        waitMs: expect.any(Number),
        attempts: 1,
        messages: question,
        text: 'yes 1',
      },
    ]);
    expect(roles.stats.get('judge')).toMatchObject({
      models: ['judge-model'],
      calls: 4,
      requests: 4,
      failures: 0,
      tokens: { input: 28, output: 12 },
    });
  });

  test('records the messages as they were asked, where the caller goes on with the same list', async () => {
    const talk: Message[] = [{ role: 'user', content: 'One?' }];
    await using roles = await openRoleModels({ critic: { model: answering(() => 'yes') } });
    const { models, asked } = roles.forRollout('1/0');
    for (const next of ['Two?', 'Three?']) {
      const { text } = await models['critic']!.generate(talk, { maxTokens: 8, signal: forever });
      talk.push({ role: 'assistant', content: text }, { role: 'user', content: next });
    }
    expect(asked.map(({ messages }) => messages.map(({ content }) => content))).toEqual([['One?'], ['One?', 'yes', 'Two?']]);
  });

  test('asks greedily by default, and with other sampling when asked to', async () => {
    await using server = await chatServer(() => 'yes');
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client) } });
    await ask(roles.models['judge']!, { data: { secret: 'of this process' } });
    await ask(roles.models['judge']!, { sampling: { temperature: 0.5, extra: { top_k: 3 } }, stop: ['.'] });
    expect(server.bodies[0]).toEqual({ model: 'judge-model', messages: question, temperature: 0, max_tokens: 8 });
    expect(server.bodies[1]).toMatchObject({ temperature: 0.5, top_k: 3, stop: ['.'] });
  });

  test('an overloaded server is asked again automatically, and the requests are counted', async () => {
    await using server = await chatServer((_, i) => (i < 2 ? unavailable : 'yes'));
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), ...quick } });
    const { models, asked } = roles.forRollout('1/0');
    expect((await ask(models['judge']!)).text).toBe('yes');
    expect(asked[0]!.attempts).toBe(3);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 1, requests: 3, failures: 0 });
  });

  test('a server that stays overloaded is a failure of the model, never of the policy', async () => {
    await using server = await chatServer(() => unavailable);
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), maxRetries: 1, ...quick } });
    const { models, asked } = roles.forRollout('1/0');
    const error = await failureOf(ask(models['judge']!));
    expect(error).toMatchObject({ role: 'judge', reason: 'failed', retryable: true, isRetriedOut: true, status: 503 });
    expect(error.message).toMatch(/^The model of role judge \(judge-model\) failed after 2 attempts: .*503/);
    expect(error.cause).toBeInstanceOf(PolicyError);
    expect(asked).toEqual([]);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 0, failures: 1 });
  });

  test('a role without retries, or a server that asks for a long wait, begins no rollout again', async () => {
    for (const [answer, more] of [
      [unavailable, { maxRetries: 0 }],
      [{ ...unavailable, status: 429, headers: { 'retry-after': '7200' } }, {}],
    ] as const) {
      await using server = await chatServer(() => answer);
      await using client = chatClient(server.url);
      await using roles = await openRoleModels({ judge: { model: serverModel(client), ...quick, ...more } });
      expect(await failureOf(ask(roles.models['judge']!))).toMatchObject({ isRetriedOut: true });
      expect(server.bodies).toHaveLength(1);
    }
  });

  test('a refused key is not asked again', async () => {
    await using server = await chatServer(() => ({ status: 401, body: { error: { message: 'no' } } }));
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), ...quick } });
    expect(await failureOf(ask(roles.models['judge']!))).toMatchObject({ retryable: false, status: 401 });
    expect(server.bodies).toHaveLength(1);
  });

  test('code of the environment that throws is a failure of the model, with what it threw', async () => {
    const thrown = new TypeError('x is undefined');
    await using roles = await openRoleModels({
      judge: {
        model: answering(() => {
          throw thrown;
        }),
      },
    });
    const error = await failureOf(ask(roles.models['judge']!));
    expect(error).toMatchObject({ cause: thrown, retryable: false });
  });

  test('a builtin judge that is asked without the data of a rubric fails in the role that it plays', async () => {
    await using roles = await openRoleModels({ critic: { model: judgeBy(() => ({ score: 1, reason: '' }), 'own-judge') } });
    const error = await failureOf(ask(roles.models['critic']!));
    expect(error.role).toBe('critic');
    expect(error.message).toMatch(
      /^The model of role critic \(own-judge\) failed: The judge needs the data of a JudgeRubric, but the request has none\./,
    );
  });

  test('an attempt that passes its deadline is a failure that may pass', async () => {
    await using roles = await openRoleModels({ judge: { model: answering(() => new Promise(() => {})), timeoutMs: 5, maxRetries: 0 } });
    const error = await failureOf(ask(roles.models['judge']!));
    expect(error.retryable).toBe(true);
    expect(error.cause).toBeInstanceOf(TimeoutError);
  });

  test('a cancelled call stays cancelled, even when the deadline of the rollout is the reason', async () => {
    await using server = await chatServer(() => new Promise<never>(() => {}));
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), ...quick } });
    const controller = new AbortController();
    const call = ask(roles.models['judge']!, { signal: controller.signal });
    await until(() => server.bodies.length === 1);
    controller.abort(new TimeoutError('The rollout took too long'));
    await expect(call).rejects.toThrow(CancelledError);
    expect(roles.stats.get('judge')).toMatchObject({ calls: 0, failures: 0 });
  });

  test('rollouts share the slots of a role, and the wait for one is recorded separately', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    await using server = await chatServer(async () => {
      await gate;
      return 'yes';
    });
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), maxConcurrent: 2 } });
    const rollouts = Array.from({ length: 6 }, (_, i) => roles.forRollout(`1/${i}`));
    const calls = Promise.all(rollouts.map(({ models }) => ask(models['judge']!)));
    await until(() => server.bodies.length === 2);
    release();
    await calls;
    expect(server.mostAtOnce).toBe(2);
    const waits = rollouts.map(({ asked }) => asked[0]!.waitMs);
    expect(Math.max(...waits.slice(0, 2))).toBeLessThan(Math.min(...waits.slice(2)));
  });
});

describe('clientModel', () => {
  const schema = { type: 'object', properties: { score: { type: 'number' } }, required: ['score'], additionalProperties: false };

  test('sends the schema of the reply', async () => {
    await using server = await chatServer(() => '{"score": 1}');
    await using client = chatClient(server.url);
    await ask(serverModel(client), { responseSchema: schema });
    expect(server.bodies[0]!.response_format).toEqual({ type: 'json_schema', json_schema: { name: 'reply', schema, strict: true } });
  });

  test('a schema that leaves fields open, anywhere in it, is not sent as a strict one, which OpenAI would refuse', async () => {
    await using server = await chatServer(() => '{"score": 1}');
    await using client = chatClient(server.url);
    const { required: _required, ...optional } = schema;
    const open = [
      { ...schema, additionalProperties: true },
      optional,
      { ...schema, properties: { score: { anyOf: [{ ...schema, required: [] }] } } },
    ];
    for (const responseSchema of open) await ask(serverModel(client), { responseSchema });
    expect(server.bodies.map(({ response_format: format }) => (format as { json_schema: { strict: boolean } }).json_schema.strict)).toEqual([
      false,
      false,
      false,
    ]);
  });

  test('a server that refuses the schema is asked without it, then and from then on, and both requests are counted', async () => {
    const refused = { status: 400, body: { error: { message: "Unknown field 'response_format'" } } };
    await using server = await chatServer(({ response_format }) => (response_format === undefined ? 'ok' : refused));
    await using client = chatClient(server.url);
    await using roles = await openRoleModels({ judge: { model: serverModel(client), ...quick } });
    const { models, asked } = roles.forRollout('1/0');
    await ask(models['judge']!, { responseSchema: schema });
    await ask(models['judge']!, { responseSchema: schema });
    expect(server.bodies.map((body) => 'response_format' in body)).toEqual([true, false, false]);
    expect(asked.map(({ attempts }) => attempts)).toEqual([2, 1]);
  });

  test('a request that is refused without the schema too says nothing about schemas', async () => {
    let isBroken = true;
    await using server = await chatServer(() => (isBroken ? { status: 400, body: { error: { message: 'bad messages' } } } : 'ok'));
    await using client = chatClient(server.url);
    const model = serverModel(client);
    await expect(ask(model, { responseSchema: schema })).rejects.toThrow(/bad messages/);
    isBroken = false;
    await ask(model, { responseSchema: schema });
    expect(server.bodies.at(-1)).toHaveProperty('response_format');
  });
});
