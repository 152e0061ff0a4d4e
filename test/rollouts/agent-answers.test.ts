/** What an agent gets of the policy's answers, and which of them are on record. */
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { AgentGateway } from '../../src/agents/agent-gateway.ts';
import { OpenAIChatClient } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { AgentPolicy } from '../../src/core/environment.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { completionMessages } from '../../src/rollouts/message-columns.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';
import { loopback, sendJson } from '../transport/loopback.ts';
import { agent, asked, play, say, type Turns } from './played-agent.ts';

const find = { type: 'function', function: { name: 'find', parameters: { type: 'object' } } };
const call = (query: string) => `<tool_call>{"name": "find", "arguments": {"q": "${query}"}}</tool_call>`;
const messages = [{ role: 'user' as const, content: 'a' }];

const sampled = ({ branches }: Rollout) =>
  branches.flatMap(({ tokens }) =>
    tokens!.segments.filter(({ kind }) => kind === 'model').map(({ start, end }) => Buffer.from(tokens!.ids.slice(start, end)).toString()),
  );

async function post(policy: AgentPolicy, path: string, body: object): Promise<Record<string, never>> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${policy.baseURL}/${path}`, { method: 'POST', headers, body: JSON.stringify({ model: 'm', ...body }) });
  const { status } = answer;
  return { status, ...((await answer.json()) as object) } as unknown as Record<string, never>;
}

describe('an answer is on record if the agent got it', () => {
  it('and none of n is, where the tokens of the rollout run out between them', async () => {
    await using gateway = await Gateway.open();
    const statuses: number[] = [];
    const greedy = agent(
      async ({ policy }) => {
        await say(policy, asked('before'));
        for (let i = 0; i < 2; i++) statuses.push((await post(policy, 'chat/completions', { n: 3, messages }))['status']!);
        return { answer: 'grey' };
      },
      // Of a script, a token of a limit is five characters.
      { limits: { responseTokens: 2, completionTokens: 4 } },
    );
    const rollout = await play(greedy, ({ messages: told }) => (told.at(-1)!.content === 'a' ? 'never hear' : 'heard'), { gateway });
    expect(statuses).toEqual([400, 400]);
    expect(rollout).toMatchObject({ error: null, turns: 1, stop: 'max_total_completion_tokens_reached' });
    expect(sampled(rollout)).toEqual(['heard']);
  });

  it('and of n answers of which one failed, once it asks for the rest', async () => {
    await using gateway = await Gateway.open();
    const half = (): Turns => {
      let turns = 0;
      return () => {
        if (turns++ === 0) throw new PolicyError('busy');
        return `grey ${turns}`;
      };
    };
    const choosing = (times: number) =>
      agent(async ({ policy }) => {
        const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
        for (let i = 0; i < times; i++) await client.chat.completions.create({ model: 'm', n: 2, messages }).catch(() => {});
        return { answer: await say(policy, asked('other')) };
      });
    const rollout = await play(choosing(2), half(), { gateway, maxReplays: 0 });
    expect([rollout.error, sampled(rollout).toSorted()]).toEqual([null, ['grey 2', 'grey 3', 'grey 4']]);
    expect(await play(choosing(1), half(), { gateway, maxReplays: 0 })).toMatchObject({ reward: null, turns: 1, error: { message: 'busy' } });
  });

  it.each([1, 3])('and not where its client left while %i answers were sampled', async (n) => {
    await using server = await Gateway.open();
    // What is under way is sampled to its end once the server has noticed.
    const gateway: AgentGateway = {
      add: (session) =>
        server.add({
          ...session,
          ask: (request, signal) => {
            signal.addEventListener('abort', () => left.resolve());
            return session.ask(request, signal);
          },
        }),
      close: () => server.close(),
    };
    let [begun, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let lost = 0;
    const waiting: Turns = async ({ messages: told }) => {
      if (told.at(-1)!.content !== 'a') return 'grey';
      begun.resolve();
      await left.promise;
      lost += 1;
      return 'never heard';
    };
    const leaving = (goesOn: boolean) =>
      agent(async ({ policy }) => {
        const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
        const closed = new AbortController();
        [begun, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
        const asking = client.chat.completions.create({ model: 'm', n, messages }, { signal: closed.signal }).catch(() => {});
        await begun.promise;
        closed.abort();
        await Promise.all([asking, left.promise]);
        if (goesOn) await say(policy, asked('other'));
        return { answer: 'grey' };
      });
    const rollout = await play(leaving(true), waiting, { gateway });
    expect([rollout.error, rollout.turns, sampled(rollout), rollout.branches.length]).toEqual([null, 1, ['grey'], 1]);
    expect((await play(leaving(false), waiting, { gateway })).error).toMatchObject({
      type: 'AgentError',
      reason: 'refused',
      message: expect.stringContaining('closed each connection before the answer was there'),
    });
    expect(lost).toBeGreaterThanOrEqual(n);
  });
});

describe('the tokens of thoughts', () => {
  const usageIn: Readonly<Record<string, (policy: AgentPolicy) => Promise<unknown>>> = {
    'Chat Completions': async (policy) => (await post(policy, 'chat/completions', { messages }))['usage']!['completion_tokens_details'],
    'Chat Completions, n = 2': async (policy) => (await post(policy, 'chat/completions', { n: 2, messages }))['usage']!['completion_tokens_details'],
    Responses: async (policy) => (await post(policy, 'responses', { input: messages }))['usage']!['output_tokens_details'],
    Messages: async (policy) => (await post(policy, 'messages', { messages, max_tokens: 99 }))['usage']!['output_tokens_details'],
    'the AI SDK': async (policy) => (await policy.languageModel().doGenerate({ prompt: asked('a') })).usage.outputTokens,
  };
  const thoughts = '<think>a heron?</think>\n';
  const { length } = thoughts;

  it.each(Object.entries(usageIn))('are counted in %s', async (name, usage) => {
    await using gateway = await Gateway.open();
    const counts: unknown[] = [];
    const counting = agent(async ({ policy }) => {
      counts.push(await usage(policy));
      return { answer: 'grey' };
    });
    for (const turn of [`${thoughts}grey`, 'grey', '<think>cut of']) await play(counting, () => turn, { gateway });
    const [key, twice] = [name === 'Messages' ? 'thinking_tokens' : 'reasoning_tokens', name.endsWith('2') ? 2 : 1];
    expect(counts).toEqual(
      name === 'the AI SDK'
        ? [
            { total: length + 4, text: 4, reasoning: length },
            { total: 4, text: 4, reasoning: 0 },
            { total: 13, text: 13, reasoning: 0 },
          ]
        : [{ [key]: length * twice }, { [key]: 0 }, { [key]: 0 }],
    );
  });
});

describe('one call a turn', () => {
  const heard = async (turn: string, toolCalls: 'hermes' | 'qwen3-coder' | 'llama3' = 'hermes', more: object = {}) => {
    await using gateway = await Gateway.open();
    let answer: Record<string, never> = {};
    const single = agent(async ({ policy }) => {
      answer = await post(policy, 'chat/completions', { messages, tools: [find], parallel_tool_calls: false, logprobs: true, ...more });
      return { answer: 'grey' };
    });
    const client = new ScriptedClient({ turns: [turn], logProb: () => -0.5, toolCalls });
    const rollout = await play(single, [], { gateway, client, overridesSampling: false });
    const [{ message, finish_reason: reason, logprobs }] = answer['choices'] as never as [
      { message: { content: string | null; tool_calls?: { function: { arguments: string } }[] }; finish_reason: string; logprobs: { content: [] } },
    ];
    expect([rollout.error, rollout.isTruncated]).toEqual([null, false]);
    expect(logprobs.content).toHaveLength(sampled(rollout)[0]!.length);
    return [sampled(rollout)[0], message.content, message.tool_calls?.map((each) => each.function.arguments) ?? [], reason];
  };

  it('ends after the first of several, whose tokens alone are on record', async () => {
    expect(await heard(`Well. ${call('a')}\n${call('b')} and`)).toEqual([`Well. ${call('a')}`, 'Well.', ['{"q":"a"}'], 'tool_calls']);
    const coder = (q: string) => `<tool_call>\n<function=find>\n<parameter=q>\n${q}\n</parameter>\n</function>\n</tool_call>`;
    expect(await heard(`${coder('a')}\n${coder('b')}`, 'qwen3-coder')).toEqual([coder('a'), null, ['{"q":"a"}'], 'tool_calls']);
    const bare = '{"name": "find", "parameters": {"q": "a"}}';
    expect(await heard(`${bare}; ${bare}`, 'llama3')).toEqual([bare, null, ['{"q":"a"}'], 'tool_calls']);
    // The limit cut only what is left out.
    const cut = { max_tokens: call('a').length + 15 };
    expect(await heard(`${call('a')}${call('b')}`, 'hermes', cut)).toEqual([call('a'), null, ['{"q":"a"}'], 'tool_calls']);
    expect((await heard(`<tool_call></tool_call>${call('b')}`))[0]).toBe('<tool_call></tool_call>');
  });

  it('is not ended by the tag in a text, in thoughts or after the only call', async () => {
    const text = 'The tag </tool_call> ends a call.';
    expect(await heard(text)).toEqual([text, text, [], 'stop']);
    expect(await heard(`${text} ${call('a')}.`)).toEqual([`${text} ${call('a')}.`, text, ['{"q":"a"}'], 'tool_calls']);
    const thoughts = `<think>${call('x')} or ${call('y')}</think>\n`;
    expect(await heard(`${thoughts}${call('a')}`)).toEqual([`${thoughts}${call('a')}`, null, ['{"q":"a"}'], 'tool_calls']);
  });
});

describe('a malformed call on record', () => {
  it.each([
    [
      '<tool_call>{"name": "find", "arguments": {"q": "her}</tool_call>',
      { content: 'Look.', tool_calls: [{ name: 'find', arguments: '{"q": "her}', malformed: expect.stringContaining('not JSON') }] },
    ],
    // Without a name it cannot be passed on: the turn is text, for the agent and on record.
    ['<tool_call>{"arguments": {}}</tool_call>', { content: 'Look. <tool_call>{"arguments": {}}</tool_call>' }],
    [call('heron'), { content: 'Look.', tool_calls: [{ name: 'find', arguments: '{"q":"heron"}' }] }],
  ])('has what the agent got of it, and says what is wrong: %s', async (written, expected) => {
    const rollout = await play(
      agent(async ({ policy }) => {
        const tools = [{ type: 'function' as const, name: 'find', inputSchema: { type: 'object' as const } }];
        await say(policy, asked('a'), { tools });
        return { answer: 'grey' };
      }),
      () => `Look. ${written}`,
    );
    const id = expect.any(String);
    const calls = 'tool_calls' in expected ? { tool_calls: expected.tool_calls.map((each) => ({ id, ...each })) } : {};
    expect(completionMessages(rollout)).toEqual([{ role: 'assistant', ...expected, ...calls }]);
  });
});

describe('what a chat API refuses', () => {
  const KEY = 'sk-a-secret-of-the-user';
  const refusing = async (status: number, error: object, goesOn = false) => {
    await using gateway = await Gateway.open();
    await using server = await loopback((_, response) =>
      server.requests.length === (goesOn ? 1 : 2)
        ? sendJson(response, status, { error })
        : sendJson(response, 200, { choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'grey' } }] }),
    );
    const versions = new PolicyVersions({ version: 0, model: 'gpt' });
    const client = new OpenAIChatClient({ baseUrls: [`${server.url}/v1`], apiKey: KEY, versions, maxRetries: 0, maxWaitMs: 0 });
    const heard: unknown[] = [];
    const asking = agent(
      async ({ policy }) => {
        for (const path of ['chat/completions', 'messages'])
          heard.push(await post(policy, path, { messages: [{ role: 'user', content: path }], max_tokens: 9 }));
        return { answer: 'grey' };
      },
      { failures: 'score' },
    );
    const rollout = await play(asking, [], { client, gateway, maxReplays: 0 });
    await client.close();
    return { rollout, heard };
  };

  it('of a request is a 400 in its words, without the key, and fails the rollout that ends so', async () => {
    const { rollout, heard } = await refusing(422, { message: `frequency_penalty must be 0. Key ${KEY}`, param: 'frequency_penalty' });
    expect(heard[1]).toMatchObject({
      status: 400,
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringMatching(/^frequency_penalty must be 0\. Key (?!sk-)/) },
    });
    expect(rollout).toMatchObject({ reward: null, turns: 1, error: { type: 'PolicyError', source: 'policy' } });
    expect(JSON.stringify([heard, rollout.error])).not.toContain(KEY);
    const went = await refusing(400, { message: 'no such role', param: 'messages[0].role' }, true);
    expect(went.heard[0]).toMatchObject({ status: 400, error: { param: 'messages[0].role', message: expect.stringContaining('no such role') } });
    expect(went.rollout).toMatchObject({ error: null, reward: 1, turns: 1 });
  });

  it.each([401, 403, 429, 500])('of its account, or for its state, is a failure of the policy: %i', async (status) => {
    const { rollout, heard } = await refusing(status, { message: 'no' });
    expect(heard[1]).toMatchObject({ status: 502 });
    expect(rollout).toMatchObject({ reward: null, error: { type: 'PolicyError' } });
  });
});
