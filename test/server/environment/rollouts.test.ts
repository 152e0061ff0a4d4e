import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../../src/clients/policy-versions.ts';
import { VllmTokensClient } from '../../../src/clients/vllm-tokens.ts';
import { probeReplicas } from '../../../src/clients/vllm-probe.ts';
import { ConfigError, PolicyError } from '../../../src/core/errors.ts';
import type { PolicyAddress, ServedPoliciesOptions } from '../../../src/server/environment/served-policies.ts';
import { nanoServer, type NanoServer } from '../policy/nano-server.ts';
import { type Answer, environmentClient, TalkEnv } from './environment-client.ts';

let policy: NanoServer;
beforeAll(async () => {
  policy = await nanoServer();
});
afterAll(() => policy[Symbol.asyncDispose]());

/** Opens a client by token ids; counts how often. */
function policies(changes: Partial<ServedPoliciesOptions> = {}) {
  const opened: PolicyAddress[] = [];
  const options: ServedPoliciesOptions = {
    async open(address, signal) {
      opened.push(address);
      if (address.model === 'nobody') throw new ConfigError('The server does not serve nobody.');
      if (address.baseUrl.includes(':9/')) throw new PolicyError('The policy server cannot be reached. Start it.');
      const {
        model,
        hasChatTemplate,
        kind,
        chatOnlyBecause: _,
        ...capabilities
      } = await probeReplicas({ baseUrls: [address.baseUrl], model: address.model, headers: {}, signal });
      const versions = new PolicyVersions({ version: address.version, model });
      const client = new VllmTokensClient({ baseUrls: [address.baseUrl], versions, capabilities, hasChatTemplate });
      expect(kind).toBe('tokens');
      return { client, models: null, [Symbol.asyncDispose]: () => client.close() };
    },
    readSampling: ({ temperature = 1, max_tokens: maxTokens = null }) => ({
      sampling: { temperature: temperature as number, topP: 1 },
      maxTokens: maxTokens as number | null,
    }),
    ...changes,
  };
  return { opened, options };
}

const request = (changes: object = {}) => ({
  example_ids: ['row-0', 'row-1', 'row-2'],
  policy: { base_url: `${policy.url}/v1`, version: 3 },
  sampling: { temperature: 0, max_tokens: 12 },
  ...changes,
});

/** The lines of the answer; leaves after `leaveAfter` of them. */
async function lines(url: string, body: object, leaveAfter = Infinity): Promise<Answer[]> {
  const leave = new AbortController();
  const response = await fetch(`${url}/v1/rollouts`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: leave.signal,
  });
  if (response.status !== 200) return [response.status, await response.json()];
  const found: Answer[] = [];
  let text = '';
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const whole = text.split('\n');
      text = whole.pop()!;
      found.push(...whole.map((line) => JSON.parse(line)));
      if (found.length >= leaveAfter) leave.abort();
    }
  } catch (error) {
    if ((error as Error).name !== 'AbortError') throw error;
  }
  return found;
}

/** `{reward, token_ids, loss_mask, logprobs}` by rollout. */
const records = (all: Answer[]) =>
  Object.fromEntries(
    all
      .filter(({ done }) => done === undefined)
      .map(({ rollout_id: id, reward, token_ids, loss_mask, logprobs }) => [id, { reward, token_ids, loss_mask, logprobs }]),
  );

describe('POST /v1/rollouts', () => {
  it('plays every rollout and ends with the counts', async () => {
    const { options, opened } = policies();
    await using server = await environmentClient(new TalkEnv({ maxTurns: 3 }), { policies: options });
    const all = await lines(server.url, request({ rollouts_per_example: 2, max_concurrent: 3 }));
    expect(all.at(-1)).toEqual({ done: true, finished: 6, failed: 0 });
    expect(
      all
        .slice(0, -1)
        .map(({ rollout_id: id }) => id)
        .toSorted((a: string, b: string) => a.localeCompare(b)),
    ).toEqual(['row-0/0', 'row-0/1', 'row-1/0', 'row-1/1', 'row-2/0', 'row-2/1']);
    for (const rollout of all.slice(0, -1)) {
      expect(rollout).toMatchObject({ reward: expect.any(Number) as number, error: null, policy: { model: 'nano-base', version: 3 } });
      expect(rollout.logprobs).toHaveLength(rollout.token_ids.length);
      expect(rollout).not.toHaveProperty('messages');
    }
    expect(opened).toHaveLength(1);
    const withMessages = await lines(server.url, request({ messages: true }));
    expect(withMessages[0].messages[0]).toEqual({ role: 'user', content: `Talk about ${withMessages[0].example_id.at(-1)}.` });
    // The second request found the policy open.
    expect(opened).toHaveLength(1);
  });

  it("has the row's task and role in every line, failed ones too, as the rows have them", async () => {
    const labels = { task: 'talk', role: 'speak' };
    const onStep = () => {
      throw new PolicyError('not today');
    };
    await using server = await environmentClient(new TalkEnv({ maxTurns: 1, labels }), { policies: policies().options });
    await using failing = await environmentClient(new TalkEnv({ labels, onStep }), { policies: policies().options });
    for (const { url } of [server, failing]) expect((await lines(url, request({ example_ids: ['row-0'] })))[0]).toMatchObject(labels);
    const answer = await fetch(`${server.url}/v1/tasks?limit=1`);
    expect(((await answer.json()) as Answer).tasks[0]).toMatchObject(labels);
  });

  it('gives the tokens that a caller gets who samples from the same server', async () => {
    await using server = await environmentClient(new TalkEnv({ maxTurns: 3 }), { policies: policies().options });
    const [ours] = await lines(server.url, request({ example_ids: ['row-0'] }));
    const [first] = await server.begin(['row-0'], 'tokens', { max_model_len: 2048 });
    let turn = first;
    const context: number[] = [];
    while (!turn.done) {
      context.push(...turn.append_ids);
      expect(context).toHaveLength(turn.context_length);
      const { body } = await policy.post('/v1/completions', {
        prompt: context,
        stop: turn.stop,
        include_stop_str_in_output: true,
        temperature: 0,
        max_tokens: Math.min(12, turn.max_new_tokens),
        logprobs: 0,
        return_token_ids: true,
      });
      const [{ token_ids, logprobs, finish_reason }] = body.choices;
      [turn] = await server.step({ episode_id: turn.episode_id, turn: turn.turn, token_ids, logprobs: logprobs.token_logprobs, finish_reason });
    }
    expect(records([turn.rollout])).toEqual(records([ours]));
    expect(turn.rollout.num_turns).toBeGreaterThan(1);
  });

  it('gives the lines of the first request to a repeated request, and continues at the place where a reader left', async () => {
    await using server = await environmentClient(new TalkEnv({ maxTurns: 3 }), { policies: policies().options });
    const body = request({ request_id: 'one', max_concurrent: 1 });
    const first = await lines(server.url, body, 1);
    expect(first).toHaveLength(1);
    const again = await lines(server.url, body);
    expect(again[0]).toEqual(first[0]);
    expect(again.at(-1)).toEqual({ done: true, finished: 3, failed: 0 });
    expect(await lines(server.url, body)).toEqual(again);
    expect(await lines(server.url, { ...body, max_concurrent: 2 })).toMatchObject([
      409,
      { error: { message: expect.stringMatching(/another request/) as string } },
    ]);
  });

  it('gives the lines of an ended request although its policy server has another model now', async () => {
    let isRenamed = false;
    const { options } = policies({ keepMs: 0 });
    const open: ServedPoliciesOptions['open'] = (address, signal) =>
      isRenamed ? Promise.reject(new ConfigError('It serves another model.')) : options.open(address, signal);
    await using server = await environmentClient(new TalkEnv({ maxTurns: 2 }), { policies: { ...options, open } });
    const body = request({ request_id: 'one' });
    const first = await lines(server.url, body);
    isRenamed = true;
    expect(await lines(server.url, body)).toEqual(first);
    expect((await lines(server.url, request({ request_id: 'two' })))[0]).toBe(422);
    expect(await lines(server.url, body)).toEqual(first);
  });

  it('holds no line that was read, so a fast reader gets more than the server may hold', async () => {
    await using server = await environmentClient(new TalkEnv({ maxTurns: 2 }), { policies: policies().options, maxRolloutBytes: 8_000 });
    const all = await lines(server.url, request({ rollouts_per_example: 20, max_concurrent: 1 }));
    expect(JSON.stringify(all).length * 2).toBeGreaterThan(20_000);
    expect(all.at(-1)).toEqual({ done: true, finished: 60, failed: 0 });
  });

  it('ends a request whose answers exceed its memory bound with an error for each missing rollout; others are played', async () => {
    await using server = await environmentClient(new TalkEnv({ maxTurns: 2 }), { policies: policies().options, maxRolloutBytes: 8_000 });
    const all = await lines(server.url, request({ rollouts_per_example: 20, request_id: 'large' }));
    const { finished, failed, done } = all.pop();
    expect([done, finished + failed, finished > 0, failed > 0]).toEqual([true, 60, true, true]);
    const lost = all.filter(({ error }) => error !== null);
    expect(lost).toHaveLength(failed);
    expect(lost[0]).toMatchObject({ reward: null, error: { type: 'ResultsError', message: expect.stringMatching(/smaller requests/) as string } });
    // The ended request makes room for the next.
    expect((await lines(server.url, request({ request_id: 'small' }))).at(-1)).toEqual({ done: true, finished: 3, failed: 0 });
    expect(server.failures).toEqual([]);
  });

  it('joins a request that is under way, which plays nothing twice', async () => {
    let begun = 0;
    const environment = new TalkEnv({ maxTurns: 3 });
    const start = environment.start.bind(environment);
    environment.start = (...given) => {
      begun += 1;
      return start(...given);
    };
    await using server = await environmentClient(environment, { policies: policies().options });
    const body = request({ request_id: 'one' });
    const [a, b] = await Promise.all([lines(server.url, body), lines(server.url, body)]);
    expect(b).toEqual(a);
    expect(begun).toBe(3);
  });

  it('cancels what is in flight when its reader leaves', async () => {
    await using server = await environmentClient(
      new TalkEnv({
        onStep: (_, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
      }),
      {
        policies: policies().options,
      },
    );
    const leave = new AbortController();
    const response = await fetch(`${server.url}/v1/rollouts`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(request()),
      signal: leave.signal,
    });
    expect(response.status).toBe(200);
    await expect.poll(async () => (await server.get('/health'))[1].rollouts).toBe(3);
    leave.abort();
    await expect.poll(async () => (await server.get('/health'))[1].rollouts).toBe(0);
    expect(server.failures).toEqual([]);
  });

  it('gives every rollout a null reward and the error of a policy that is down', async () => {
    await using server = await environmentClient(new TalkEnv({ maxTurns: 3 }), { policies: policies().options });
    const all = await lines(server.url, request({ policy: { base_url: 'http://127.0.0.1:9/v1' } }));
    expect(all.at(-1)).toEqual({ done: true, finished: 0, failed: 3 });
    expect(all.slice(0, -1)).toMatchObject(
      Array.from({ length: 3 }, () => ({ reward: null, stop_condition: 'has_error', error: { type: 'PolicyError' }, token_ids: [] })),
    );
  });

  it('fails the rollouts of a policy that dies under way, and ends', async () => {
    const dying = createServer((_, response) => response.destroy()).listen(0, '127.0.0.1');
    await once(dying, 'listening');
    const { port } = dying.address() as { port: number };
    const { options } = policies();
    await using server = await environmentClient(new TalkEnv({ maxTurns: 3 }), {
      policies: {
        ...options,
        open: async (address) => {
          const versions = new PolicyVersions({ version: 0, model: 'nano-base' });
          const client = new VllmTokensClient({
            baseUrls: [address.baseUrl],
            versions,
            capabilities: { maxModelLen: 2048, tokenizerHash: null, logProbsMode: 'raw' },
            maxRetries: 0,
          });
          return { client, models: null, [Symbol.asyncDispose]: () => client.close() };
        },
      },
    });
    const all = await lines(server.url, request({ example_ids: ['row-0'], policy: { base_url: `http://127.0.0.1:${port}/v1` } }));
    expect(all).toMatchObject([
      { reward: null, error: { type: 'PolicyError' } },
      { done: true, finished: 0, failed: 1 },
    ]);
    dying.closeAllConnections();
    dying.close();
  });

  it.each([
    ['a host beyond this machine', { policy: { base_url: 'http://10.0.0.1/v1' } }, /--allow-policy-host 10\.0\.0\.1/],
    ['another scheme', { policy: { base_url: 'file:///etc/passwd' } }, /http:\/\/ or https:\/\//],
    [
      'a variable that is not a key',
      { policy: { base_url: 'http://127.0.0.1:1/v1', api_key_var: 'AWS_SECRET_ACCESS_KEY' } },
      /--allow-policy-key-var/,
    ],
    ['a model that is not served', { policy: { base_url: 'http://127.0.0.1:1/v1', model: 'nobody' } }, /does not serve nobody/],
    ['an unknown row', { example_ids: ['row-0', 'nobody'] }, /^example_ids\[1\]: "nobody" is not among/],
    ['a row twice', { example_ids: ['row-0', 'row-0'] }, /occurs twice/],
    ['too many rollouts', { rollouts_per_example: 100_000 }, /at most 65,536/],
  ])('refuses %s before it plays', async (_, changes, message) => {
    await using server = await environmentClient(new TalkEnv({ maxTurns: 3 }), { policies: policies().options });
    expect(await lines(server.url, request(changes))).toMatchObject([
      422,
      { error: { type: 'ValidationError', message: expect.stringMatching(message) as string } },
    ]);
  });

  it('scores groups together, and leaves a group that was cut off to the next reader', async () => {
    await using server = await environmentClient(new TalkEnv({ hasGroupRewards: true, maxTurns: 3 }), { policies: policies().options });
    const body = request({ example_ids: ['row-0', 'row-1'], rollouts_per_example: 2, request_id: 'g', max_concurrent: 2 });
    await lines(server.url, body, 1);
    const all = await lines(server.url, body);
    expect(all.at(-1)).toEqual({ done: true, finished: 4, failed: 0 });
    for (const row of ['row-0', 'row-1']) {
      const rewards = all.filter(({ example_id: id }) => id === row).map(({ reward }) => reward as number);
      expect(rewards.reduce((a, b) => a + b, 0)).toBeCloseTo(1);
    }
  });
});
