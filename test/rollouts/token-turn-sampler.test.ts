/** What the policy is asked, what its server and its chat template refuse, and what an agent hears of stop strings. */
import type { LanguageModelV4CallOptions, LanguageModelV4Prompt } from '@ai-sdk/provider';
import { describe, expect, it } from 'vitest';
import type { GenerateRequest, LeaseOptions, PolicyLease } from '../../src/clients/policy-client.ts';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { AgentEnv, type AgentOptions } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { AgentPolicy } from '../../src/core/environment.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { RefusedRequestError } from '../../src/core/refused-request-error.ts';
import { contentText, type Message } from '../../src/core/message.ts';
import { Rubric } from '../../src/core/rubric.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';

type Run = NonNullable<AgentOptions<Row>['run']>;

async function play(run: Run, script: ScriptedOptions, more: Partial<RunOptions<Row>> = {}): Promise<Rollout> {
  const row: Row = { exampleId: 0, prompt: [{ role: 'user', content: 'a' }] };
  const environment = new AgentEnv({ id: 'agent', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), run });
  const options = { environment, client: new ScriptedClient(script), maxTokens: null, maxConcurrent: 1, timeoutMs: null, seed: 0 };
  const sampling = { temperature: 1, topP: 1 };
  const { signal } = new AbortController();
  for await (const { rollouts } of runRollouts([{ row, indices: [0] }], { ...options, sampling, overridesSampling: false, signal, ...more }))
    return rollouts[0]!;
  throw new Error('Expected a rollout, got none');
}

const user = (text: string): LanguageModelV4Prompt[number] => ({ role: 'user', content: [{ type: 'text', text }] });
const written = (text: string): LanguageModelV4Prompt[number] => ({ role: 'assistant', content: [{ type: 'text', text }] });
const ask = async (policy: AgentPolicy, prompt: LanguageModelV4Prompt, more: Partial<LanguageModelV4CallOptions> = {}) =>
  await policy.languageModel().doGenerate({ prompt, ...more });

/** Keeps what its leases are asked: the names of the tools that a prompt shows, and each generation. */
class Heard extends ScriptedClient {
  readonly shown: (readonly string[])[] = [];
  readonly requests: GenerateRequest<unknown>[] = [];

  override async lease(signal: AbortSignal, options: LeaseOptions = {}): Promise<PolicyLease> {
    const lease = await super.lease(signal, options);
    const asked = <R extends GenerateRequest<unknown>>(request: R): R => {
      this.requests.push(request);
      return request;
    };
    if (lease.kind === 'chat') return { ...lease, generate: (request: GenerateRequest<readonly Message[]>) => lease.generate(asked(request)) };
    return {
      ...lease,
      render: (messages, more) => {
        this.shown.push((more?.tools ?? []).map(({ name }) => name));
        return lease.render(messages, more);
      },
      generate: (request: GenerateRequest<Int32Array>) => lease.generate(asked(request)),
    };
  }
}

describe('a lease', () => {
  it('is used again after an attempt that failed', async () => {
    let leases = 0;
    class Counted extends ScriptedClient {
      override lease(signal: AbortSignal, options: LeaseOptions = {}): Promise<PolicyLease> {
        leases += 1;
        return super.lease(signal, options);
      }
    }
    let calls = 0;
    const turns = () => {
      calls += 1;
      if (calls !== 1 && calls !== 10 && calls !== 12) throw new PolicyError('busy', { status: 503 });
      return `answer ${calls}`;
    };
    const run: Run = async ({ policy }) => {
      const heard = async (...prompt: LanguageModelV4Prompt) => await ask(policy, prompt).catch(() => null);
      await heard(user('a'));
      for (let i = 0; i < 8; i++) await heard(user('a'), written('answer 1'), user(`more ${i}`));
      await heard(user('a'), written('answer 1'), user('last'));
      await heard(user('a'), written('answer 1'), user('last'), written('answer 10'), user('end'));
      await heard(user('a'), written('answer 1'), user('last'), written('answer 10'), user('end'));
      return {};
    };
    const { branches } = await play(run, { turns }, { client: new Counted({ turns }), maxReplays: 0 });
    expect([calls, leases, branches.map(({ generations }) => generations.length)]).toEqual([12, 1, [3]]);
  });
});

const find = { type: 'function', name: 'find', inputSchema: { type: 'object' } } as const;
const call = '<tool_call>{"name": "find", "arguments": {}}</tool_call>';

/** As Gemma's, in which a user speaks first. */
const alternating: ScriptedOptions['template'] = (messages) => {
  if (messages[0]?.role === 'assistant') throw new PolicyError('Speakers must alternate.', { status: 400 });
  return messages.map(({ content }) => contentText(content)).join('\n');
};

describe('a request that the policy refuses', () => {
  it('because of its chat template names the messages, and the rollout goes on without it', async () => {
    const heard: unknown[] = [];
    const rollout = await play(
      async ({ policy }) => {
        await ask(policy, [written('own'), user('a')]).catch((error: unknown) => heard.push(error));
        await ask(policy, [user('a')]);
        return {};
      },
      { turns: ['one'], template: alternating },
    );
    expect(heard).toEqual([
      expect.objectContaining({
        statusCode: 400,
        isRetryable: false,
        data: { error: { param: 'prompt', message: 'prompt cannot be honoured: Speakers must alternate.' } },
      }),
    ]);
    expect([rollout.error, rollout.turns, rollout.branches.length]).toEqual([null, 1, 1]);
  });

  it('because of its settings is a 400, whoever gave them, and fails a rollout that ends so', async () => {
    const heard: unknown[] = [];
    let asked = 0;
    const refusing: ScriptedOptions = {
      turns: () => {
        if (asked++ % 2 === 0) throw new PolicyError('min_tokens must be at most max_tokens', { status: 400 });
        return 'yes';
      },
    };
    const run =
      (goesOn: boolean): Run =>
      async ({ policy }) => {
        if (!goesOn) await ask(policy, [user('before')]);
        await ask(policy, [user('a')], { maxOutputTokens: 1 }).catch((error: unknown) => heard.push(error));
        if (goesOn) await ask(policy, [user('b')]);
        return {};
      };
    for (const overridesSampling of [false, true]) {
      asked = 0;
      expect((await play(run(true), refusing, { overridesSampling })).error).toBeNull();
      asked = 1;
      expect((await play(run(false), refusing, { overridesSampling })).error).toMatchObject({ type: 'PolicyError', source: 'policy' });
    }
    expect(heard).toEqual(
      Array(4).fill(
        expect.objectContaining({ statusCode: 400, message: "The policy's server refused the request: min_tokens must be at most max_tokens" }),
      ),
    );
  });

  it.each([
    ['presence_penalty', 'presence_penalty is not supported, got 2 (parameter=presence_penalty)', 'presence_penalty is not supported, got 2'],
    ['stop', 'at most 4 are taken', 'stop cannot be honoured: at most 4 are taken'],
    [null, 'no', "The policy's server refused the request: no"],
  ])('in words of its server, without the address of it: %s', async (param, reason, message) => {
    const heard: unknown[] = [];
    const turns = () => {
      throw new RefusedRequestError(`vLLM failed: [POST] http://127.0.0.1:8001: 400 ${reason}`, { status: 400, param, reason });
    };
    const run: Run = async ({ policy }) => {
      await ask(policy, [user('a')]).catch((error: unknown) => heard.push(error));
      return {};
    };
    await play(run, { turns });
    expect(heard).toEqual([expect.objectContaining({ statusCode: 400, message, data: { error: expect.objectContaining({ param }) } })]);
    expect((await play(run, { turns }, { overridesSampling: true })).error).toMatchObject({ type: 'PolicyError' });
  });

  it('is told where the agent gets no answer at all', async () => {
    const run: Run = async ({ policy }) => {
      await ask(policy, [user('a')], { toolChoice: { type: 'required' } }).catch(() => {});
      return {};
    };
    const { error } = await play(run, { turns: ['one'] });
    expect(error).toMatchObject({ type: 'AgentError', reason: 'refused' });
    expect(error!.message).toBe(
      'The agent got no answer from the policy. Its last request was refused: toolChoice cannot be honoured: the request offers no tool.',
    );
    await using gateway = await Gateway.open();
    const overHttp: Run = async ({ policy }) => {
      const body = JSON.stringify({ messages: [{ role: 'user', content: 'a' }], logit_bias: { 5: 1 } });
      await fetch(`${policy.baseURL}/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      return {};
    };
    expect((await play(overHttp, { turns: ['one'] }, { gateway })).error).toMatchObject({
      reason: 'refused',
      message: expect.stringContaining('logit_bias cannot be honoured here'),
    });
  });
});

it('the tag that ends a single call is no stop sequence of the agent, and its own is', async () => {
  await using gateway = await Gateway.open();
  const heard: unknown[] = [];
  await play(
    async ({ policy }) => {
      const tools = [{ name: 'find', input_schema: { type: 'object' } }];
      for (const more of [{ tools, tool_choice: { type: 'auto', disable_parallel_tool_use: true } }, { stop_sequences: ['!'] }]) {
        const answer = await fetch(`${policy.baseURL}/messages`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: policy.name, max_tokens: 500, messages: [{ role: 'user', content: 'a' }], ...more }),
        });
        const { stop_reason: reason, stop_sequence: stop } = (await answer.json()) as Readonly<Record<string, unknown>>;
        heard.push([reason, stop]);
      }
      return {};
    },
    { turns: () => 'Well! <tool_call>{"name": "find", "arguments": {}}</tool_call>' },
    { gateway },
  );
  expect(heard).toEqual([
    ['tool_use', null],
    ['stop_sequence', '!'],
  ]);
});

describe('tool_choice "none"', () => {
  it.each([
    [
      'tokens',
      'hermes',
      [
        [['find']],
        [
          [undefined, undefined],
          [undefined, undefined],
        ],
      ],
    ],
    [
      'chat',
      'structured',
      [
        [],
        [
          [1, { tool_choice: 'none' }],
          [1, undefined],
        ],
      ],
    ],
  ] as const)('shows the tools all the same, because the next turn may call them: %s', async (kind, toolCalls, asked) => {
    const client = new Heard({ turns: () => call, kind, toolCalls });
    const contents: unknown[] = [];
    const rollout = await play(
      async ({ policy }) => {
        const { content } = await ask(policy, [user('a')], { tools: [find], toolChoice: { type: 'none' } });
        contents.push(...content);
        await ask(policy, [user('a'), written(call), user('b')], { tools: [find] });
        return {};
      },
      { turns: [] },
      { client },
    );
    expect(contents).toEqual([{ type: 'text', text: call }]);
    expect([rollout.error, rollout.branches.length]).toEqual([null, 1]);
    expect([client.shown.slice(0, 1), client.requests.map(({ tools, sampling }) => [tools?.length, sampling.extra])]).toEqual(asked);
  });
});

it.each([
  [
    '<think>maybe TOOL</think>\n\nNo need.',
    [
      { type: 'reasoning', text: 'maybe TOOL' },
      { type: 'text', text: 'No need.' },
    ],
  ],
  ['<think>maybe TOOL</think>\n\nI look. TOOL', [{ type: 'reasoning', text: 'maybe TOOL' }, { type: 'text', text: 'I look.' }, 'find']],
  ['<think>maybe TOOL', [{ type: 'text', text: '<think>maybe' }, 'find']],
  // Its end is not what ends a single call.
  ['see </tool_call>', [{ type: 'text', text: 'see </tool_call>' }]],
])('a call counts behind the thoughts, in which it is a mention: %j', async (turn, heard) => {
  const parts: unknown[] = [];
  const rollout = await play(
    async ({ policy }) => {
      const { content } = await ask(policy, [user('a')], { tools: [find] });
      parts.push(...content.map((part) => (part.type === 'tool-call' ? part.toolName : part)));
      return {};
    },
    { turns: [turn.replaceAll('TOOL', call)] },
  );
  expect(rollout.error).toBeNull();
  expect(JSON.parse(JSON.stringify(parts).replaceAll(JSON.stringify(call).slice(1, -1), 'TOOL'))).toEqual(heard);
});

it('a call that must be made opens a prompt of any length', async () => {
  const { error, turns } = await play(
    async ({ policy }) => {
      await ask(policy, [user('w'.repeat(300_000))], { tools: [find], toolChoice: { type: 'required' } });
      return {};
    },
    { turns: ['find", "arguments": {}}</tool_call>'] },
  );
  expect([error, turns]).toEqual([null, 1]);
});

describe('the seed of a turn', () => {
  const seedsOf = async (run: Run, more: Partial<RunOptions<Row>> = {}, script: Partial<ScriptedOptions> = {}) => {
    const client = new Heard({ turns: () => 'hi', ...script });
    await using gateway = await Gateway.open();
    const { error } = await play(run, { turns: [] }, { client, gateway, ...more });
    expect(error).toBeNull();
    return client.requests.map(({ seed, sampling }) => seed ?? sampling.extra?.['seed']);
  };
  const chat = (policy: AgentPolicy, more: object) =>
    fetch(`${policy.baseURL}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'a' }], ...more }),
    });

  it('differs between two roles that ask the same list, and is as without roles for the policy itself', async () => {
    const alone = await seedsOf(async ({ policy }) => {
      await ask(policy, [user('a')]);
      return {};
    });
    const roles = await seedsOf(async ({ policy }) => {
      for (const asking of [policy, policy.as('pro'), policy.as('con')]) await ask(asking, [user('a')]);
      return {};
    });
    expect(roles[0]).toBe(alone[0]);
    expect(new Set(roles).size).toBe(3);
  });

  it.each(['tokens', 'chat'] as const)('is the one that the agent asks for, another one for each of n answers: %s', async (kind) => {
    const run: Run = async ({ policy }) => {
      await chat(policy, { n: 3, seed: 7 });
      await chat(policy, { seed: 8 });
      await chat(policy, { n: 4, seed: 7 });
      return {};
    };
    const seeds = await seedsOf(run, {}, { kind });
    expect(seeds.slice(0, 3)).toEqual([7, expect.any(Number), expect.any(Number)]);
    expect(new Set(seeds.slice(0, 3)).size).toBe(3);
    // Whatever was asked before, and the same answers once more where the same seed is asked.
    expect(seeds.slice(3)).toEqual([8, ...seeds.slice(0, 3), expect.any(Number)]);
  });

  it('is left by an answer that failed to the one that is asked in its place', async () => {
    let asked = 0;
    const script: Partial<ScriptedOptions> = {
      turns: () => {
        if (asked++ === 0) throw new PolicyError('busy');
        return 'hi';
      },
    };
    const run: Run = async ({ policy }) => {
      for (let i = 0; i < 2; i++) await chat(policy, { n: 2, seed: 7 });
      return {};
    };
    const [failed, kept, retried] = await seedsOf(run, {}, script);
    expect([failed, retried]).toEqual([7, 7]);
    expect(kept).not.toBe(7);
  });
});

it('the log-probs of an answer end with its text: none is of the stop string', async () => {
  await using gateway = await Gateway.open();
  const heard: unknown[] = [];
  await play(
    async ({ policy }) => {
      for (const stop of [['END'], undefined]) {
        const answer = await fetch(`${policy.baseURL}/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ messages: [{ role: 'user', content: 'a' }], logprobs: true, ...(stop === undefined ? {} : { stop }) }),
        });
        const { choices } = (await answer.json()) as { choices: { message: { content: string }; logprobs: { content: { token: string }[] } }[] };
        heard.push([choices[0]!.message.content, choices[0]!.logprobs.content.map(({ token }) => token).join('')]);
      }
      return {};
    },
    { turns: () => 'hoENDmore' },
    { gateway },
  );
  expect(heard).toEqual([
    ['ho', 'ho'],
    ['hoENDmore', 'hoENDmore'],
  ]);
});
