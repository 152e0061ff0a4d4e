import { generateText, isStepCount, tool, ToolLoopAgent } from 'ai';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { AgentError } from '../../src/core/agent-error.ts';
import type { AgentPolicy } from '../../src/core/environment.ts';
import { ExecutionError, ModelError, PolicyError, RewardError } from '../../src/core/errors.ts';
import { contentText } from '../../src/core/message.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { trajectoryOf } from '../../src/trainer/trajectory.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';
import { agent, asked, echo, play, say, told, type Turns } from './played-agent.ts';

const call = (query: string) => `<tool_call>{"name": "find", "arguments": {"query": ${JSON.stringify(query)}}}</tool_call>`;
const find = tool({ description: 'Finds.', inputSchema: z.object({ query: z.string() }), execute: async ({ query }) => `Doc on ${query}` });
const searches: Turns = ({ messages }) =>
  messages.some(({ role }) => role === 'tool') ? '<think>so</think>\nIt is grey.' : `Let me look.\n${call('heron')}`;

const loop = agent(async ({ row, policy, signal }) => {
  const looping = new ToolLoopAgent({ model: policy.languageModel(), instructions: 'Look things up.', tools: { find }, stopWhen: isStepCount(4) });
  const { text } = await looping.generate({ prompt: contentText(row.prompt[0]!.content), abortSignal: signal });
  return { answer: text };
});

/** [ids with mask 1] of each branch, as text. */
const sampled = ({ branches }: Rollout) =>
  branches.map(({ tokens }) =>
    tokens!.segments.filter(({ kind }) => kind === 'model').map(({ start, end }) => Buffer.from(tokens!.ids.slice(start, end)).toString()),
  );

describe('an agent', () => {
  it('of the AI SDK is one branch without a fork, whose tokens are those that were sampled', async () => {
    const rollout = await play(loop, searches);
    expect(rollout).toMatchObject({ error: null, reward: 1, stop: 'completed', turns: 2, state: { answer: 'It is grey.' } });
    expect(rollout.branches).toHaveLength(1);
    const [branch] = rollout.branches;
    expect(branch).toMatchObject({ parent: null, fork: null, tools: [{ name: 'find' }] });
    expect(rollout.segments.map(({ kind, text }) => [kind, text])).toEqual([
      ['model', `Let me look.\n${call('heron')}`],
      ['observation', 'Doc on heron'],
      ['model', '<think>so</think>\nIt is grey.'],
    ]);
    const { tokens } = branch!;
    expect(tokens!.segments.map(({ kind }) => kind)).toEqual(['prompt', 'model', 'observation', 'model']);
    expect(tokens!.sampledLength).toBe(rollout.usage.outputTokens);
  });

  it('that rewrites its history has a branch for each history, and every sampled token in one of them', async () => {
    const rewriting = agent(async ({ policy }) => {
      const first = await say(policy, asked('a'));
      await say(policy, [...asked('a'), told(first), ...asked('b')]);
      await say(policy, [...asked('summary of a and b'), ...asked('c')]);
      return {};
    });
    const rollout = await play(rewriting, echo);
    expect(sampled(rollout)).toEqual([['0: a.', '1: b.'], ['0: c.']]);
    expect(rollout.branches.map(({ parent, fork }) => [parent, fork?.kind, fork?.at, fork?.difference])).toEqual([
      [null, undefined, undefined, undefined],
      [null, 'history', 0, 'message 0 (user) was "a" and is "summary of a and b" from character 0 on'],
    ]);
    expect(rollout.turns).toBe(3);
    expect(rollout.generations).toHaveLength(3);
  });

  it('that goes on from an earlier turn shares its tokens with mask 0', async () => {
    const tree = agent(async ({ policy }) => {
      const first = await say(policy, asked('a'));
      for (const next of ['b', 'c']) await say(policy, [...asked('a'), told(first), ...asked(next)]);
      return {};
    });
    const rollout = await play(tree, echo);
    expect(sampled(rollout)).toEqual([['0: a.', '1: b.'], ['0: c.']]);
    expect(rollout.branches[1]).toMatchObject({ parent: 0, fork: { kind: 'history', at: 2 } });
    const [whole, forked] = rollout.branches.map(({ tokens }) => Buffer.from(tokens!.ids).toString());
    const common = whole!.indexOf('0: a.') + '0: a.'.length;
    expect(forked!.slice(0, common)).toBe(whole!.slice(0, common));
  });

  it('that asks the same list again gets the recorded answer, unless it was used: then it is another turn', async () => {
    const answers: string[] = [];
    let n = 0;
    const again = agent(async ({ policy }) => {
      answers.push(await say(policy, asked('a')), await say(policy, asked('a')));
      await say(policy, [...asked('a'), told(answers[0]!), ...asked('b')]);
      answers.push(await say(policy, asked('a')));
      return {};
    });
    const rollout = await play(again, () => `answer ${n++}`);
    expect(answers).toEqual(['answer 0', 'answer 0', 'answer 2']);
    expect(rollout.branches.map(({ fork }) => fork?.kind)).toEqual([undefined, 'retry']);
  });

  it('that asks in parallel gives the same branches in the same order, whichever answer comes first', async () => {
    const parts = ['one', 'two', 'three'];
    const parallel = (order: readonly number[]) =>
      agent(async ({ policy }) => {
        const first = await say(policy, asked('plan'));
        const sub = async (part: string) => {
          const found = await say(policy, asked(`look for ${part}`));
          return say(policy, [...asked(`look for ${part}`), told(found), ...asked('sure?')]);
        };
        const found = await Promise.all(order.map((at) => sub(parts[at]!)));
        await say(policy, [...asked('plan'), told(first), ...asked(found.toSorted().join(' '))]);
        return {};
      });
    const rollouts = [await play(parallel([0, 1, 2]), echo), await play(parallel([2, 0, 1]), echo)];
    const [a, b] = rollouts.map((rollout) => rollout.branches.map(({ segments, tokens }) => [segments.map(({ text }) => text), [...tokens!.ids]]));
    expect(a).toHaveLength(4);
    expect(b).toEqual(a);
    expect(rollouts[0]!.branches[0]!.segments.map(({ text }) => text)[0]).toBe('0: plan.');
    // It wrote its answer after the parts, in the branch with which it began.
    expect(rollouts.map(({ branches }) => branches.map(({ endsLast }) => endsLast))).toEqual([
      [true, undefined, undefined, undefined],
      [true, undefined, undefined, undefined],
    ]);
    expect(trajectoryOf(rollouts[0]!).branches!.map(({ endsLast }) => endsLast)).toEqual([true, undefined, undefined, undefined]);
  });

  it('that is refused once its turns are spent is scored with what it played', async () => {
    const greedy = agent(
      async ({ policy }) => {
        for (let i = 0; ; i++) await say(policy, asked(`${i}`));
      },
      { maxTurns: 2 },
    );
    expect(await play(greedy, echo)).toMatchObject({ error: null, stop: 'max_turns_reached', turns: 2, reward: 0 });
  });

  it.each([
    [
      'throws',
      async () => Promise.reject(new TypeError('x is undefined')),
      { type: 'EnvironmentError', message: 'x is undefined', source: 'environment' },
    ],
    ['asks nothing', async () => ({ answer: 'grey' }), { type: 'AgentError', reason: 'no_call', message: /ended without asking the policy/ }],
    ['returns no object', async () => 'grey' as never, { type: 'EnvironmentError', message: /must return an object/ }],
  ])('that %s has no reward, and its failure by name', async (_, run, error) => {
    const rollout = await play(agent(run), echo);
    expect(rollout).toMatchObject({ reward: null, stop: 'has_error' });
    expect(rollout.error).toMatchObject({ ...error, message: expect.stringMatching(error.message) });
  });

  it('that fails is scored where its environment says so', async () => {
    const failing = agent(async () => Promise.reject(new Error('gave up')), { failures: 'score' });
    expect(await play(failing, echo)).toMatchObject({ error: null, reward: 0, stop: 'agent_failed', state: { failure: 'gave up' } });
    const silent = agent(async () => ({ answer: 'grey' }), { failures: 'score' });
    expect(await play(silent, echo)).toMatchObject({ error: null, reward: 0, stop: 'agent_failed' });
  });

  it.each([
    new ExecutionError('python does not exist', { endsRun: true }),
    new AgentError('its program is gone', { reason: 'exit_code', endsRun: true }),
    new ModelError('the judge is gone', { role: 'judge' }),
    new RewardError('the tests do not start'),
  ])('that fails of what it depends on is never scored: $message', async (error) => {
    const failing = agent(
      async ({ policy }) => {
        await say(policy, asked('a'));
        throw error;
      },
      { failures: 'score' },
    );
    expect(await play(failing, echo)).toMatchObject({ reward: null, error: { type: error.name, message: error.message } });
  });

  it('whose policy fails has the failure of the policy, whatever the agent made of it', async () => {
    const broken: Turns = () => {
      throw new PolicyError('the server is gone');
    };
    const swallows = agent(async ({ policy }) => {
      await say(policy, asked('a')).catch(() => {});
      return { answer: 'grey' };
    });
    expect((await play(swallows, broken)).error).toMatchObject({ type: 'PolicyError', source: 'policy', message: 'the server is gone' });
  });

  it('that ends while it waits for an answer has asked: it has no answer', async () => {
    const rollout = await play(
      agent(async ({ policy }) => {
        void say(policy, asked('a')).catch(() => {});
        return { answer: 'grey' };
      }),
      () => new Promise<never>(() => {}),
    );
    expect(rollout.error).toMatchObject({
      type: 'AgentError',
      reason: 'refused',
      message: expect.stringContaining('ended while its request was waiting'),
    });
  });

  it('has one address in each role, and one store of what it was answered over Responses', async () => {
    await using gateway = await Gateway.open();
    const ask = async ({ baseURL, apiKey }: AgentPolicy, more: object) => {
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` };
      const response = await fetch(`${baseURL}/responses`, { method: 'POST', headers, body: JSON.stringify({ input: 'one', ...more }) });
      return (await response.json()) as { readonly id: string; readonly status?: string };
    };
    const statuses: unknown[] = [];
    const rollout = await play(
      agent(async ({ policy }) => {
        expect([policy.as('w').baseURL, policy.as('w').as('v').apiKey]).toEqual([policy.as('w').baseURL, policy.as('v').apiKey]);
        expect(policy.as('w').baseURL).not.toBe(policy.baseURL);
        const { id } = await ask(policy.as('w'), {});
        for (const again of [policy.as('w'), policy]) statuses.push((await ask(again, { input: 'two', previous_response_id: id })).status);
        return { answer: 'grey' };
      }),
      echo,
      { gateway },
    );
    expect([rollout.error, statuses]).toEqual([null, ['completed', 'completed']]);
  });

  it('that asks after its end is refused and leaves no trace', async () => {
    let late: Promise<unknown> = Promise.resolve();
    const straggling = agent(async ({ policy }) => {
      await say(policy, asked('a'));
      late = new Promise((done) => setImmediate(done)).then(() => new Promise((done) => setTimeout(done, 5))).then(() => say(policy, asked('b')));
      late.catch(() => {});
      return {};
    });
    const rollout = await play(straggling, echo);
    expect(rollout.turns).toBe(1);
    await expect(late).rejects.toThrow(/The rollout has ended \(completed\)/);
  });

  it('keeps a malformed call as it was sampled, whatever its client makes of the arguments', async () => {
    const broken = '<tool_call>{"name": "find", "arguments": {"query": "her}</tool_call>';
    const rollout = await play(loop, ({ messages }) => (messages.some(({ role }) => role === 'tool') ? 'grey' : broken));
    expect(rollout.branches).toHaveLength(1);
    expect(sampled(rollout)).toEqual([[broken, 'grey']]);
  });

  it('gives its roles branches of their own, and each branch its own reward', async () => {
    const team = agent(
      async ({ policy }) => {
        await say(policy, asked('plan'));
        await say(policy.as('searcher'), asked('plan'));
        return { answer: 'grey' };
      },
      { branchReward: ({ role }) => (role === 'searcher' ? 0.5 : null) },
    );
    const { branches, reward: own } = await play(team, echo);
    expect(own).toBe(1);
    expect(branches.map(({ role, reward: each, fork }) => [role, each, fork])).toEqual([
      [undefined, undefined, null],
      ['searcher', 0.5, null],
    ]);
  });

  it('is opened for a call where it must call a tool', async () => {
    const heard: string[] = [];
    const forced = agent(async ({ policy, signal }) => {
      const { toolCalls } = await generateText({
        model: policy.languageModel(),
        tools: { find },
        toolChoice: { type: 'tool', toolName: 'find' },
        prompt: 'heron',
        abortSignal: signal,
      });
      heard.push(...toolCalls.map(({ toolName, input }) => `${toolName} ${JSON.stringify(input)}`));
      return {};
    });
    const rollout = await play(forced, () => '{"query": "heron"}}</tool_call>');
    expect(heard).toEqual(['find {"query":"heron"}']);
    expect(sampled(rollout)).toEqual([['{"query": "heron"}}</tool_call>']]);
    expect(rollout.segments[0]!.text).toBe('<tool_call>\n{"name": "find", "arguments": {"query": "heron"}}</tool_call>');
  });

  it("names the keys of sampling that give way to the run's; where they hold, there is nothing to name", async () => {
    const cool = agent(async ({ policy }) => ({ answer: await say(policy, asked('a'), { temperature: 0.2, topP: 1, seed: 3 }) }));
    expect((await play(cool, echo)).unhonoured).toEqual(['temperature', 'seed']);
    expect((await play(cool, echo, { overridesSampling: false })).unhonoured).toBeUndefined();
  });

  it('gets the log-probs of its turn over HTTP, token by token', async () => {
    await using gateway = await Gateway.open();
    const curious = agent(async ({ policy }) => {
      const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
      const { choices } = await client.chat.completions.create({ model: policy.name, messages: [{ role: 'user', content: 'a' }], logprobs: true });
      return { tokens: choices[0]!.logprobs!.content!.map(({ token, logprob }) => [token, logprob]) };
    });
    const { state, error } = await play(curious, () => 'no', { gateway });
    expect([error, state['tokens']]).toEqual([
      null,
      [
        ['n', -0.5],
        ['o', -0.5],
      ],
    ]);
  });

  it('never exceeds its budget of tokens by requests at the same time, and refuses none while a token is left', async () => {
    const environment = agent(
      async ({ policy }) => ({ answer: (await Promise.all(['a', 'b', 'c'].map((text) => say(policy, asked(text))))).join(' ') }),
      { limits: { responseTokens: 2, completionTokens: 4 } },
    );
    // Of a script, a token of a limit is five characters.
    const rollout = await play(environment, () => 'abcdefgh');
    expect(rollout).toMatchObject({ error: null, usage: { outputTokens: 20 }, turns: 3 });
  });

  it('counts no turn at which the policy failed: the agent may ask again', async () => {
    const environment = agent(
      async ({ policy }) => {
        await say(policy, asked('a')).catch(() => {});
        return { answer: await say(policy, asked('a')) };
      },
      { maxTurns: 1 },
    );
    let failures = 0;
    const turns: Turns = () => {
      if (failures++ === 0) throw new PolicyError('busy');
      return 'grey';
    };
    expect(await play(environment, turns)).toMatchObject({ error: null, turns: 1, state: { answer: 'grey' } });
  });
});
