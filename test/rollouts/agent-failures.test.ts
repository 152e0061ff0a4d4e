/** A failure is never a reward of 0, whatever the agent makes of it. */
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { AgentOptions } from '../../src/core/agent-env.ts';
import type { Row } from '../../src/core/dataset.ts';
import type { AgentPolicy } from '../../src/core/environment.ts';
import { ExecutionError, ModelError, NumericPolicyError, PolicyError } from '../../src/core/errors.ts';
import type { RoleDeclarations } from '../../src/core/model.ts';
import { contentText } from '../../src/core/message.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';
import { agent, asked, echo, play, say, told, type Turns } from './played-agent.ts';

type Run = NonNullable<AgentOptions<Row>['run']>;

/** As clients do: again after a failure, not after a refusal. */
async function persistent(policy: AgentPolicy, prompt: Parameters<typeof say>[1]): Promise<string> {
  for (let left = 3; ; left--)
    try {
      return await say(policy, prompt);
    } catch (error) {
      if (left === 0 || !(error as { isRetryable: boolean }).isRetryable) throw error;
    }
}

/** Answers so many turns, and then the server is gone. */
const gone = (after: number): Turns => {
  let turns = 0;
  return () => {
    if (turns++ >= after) throw new PolicyError('the server is gone');
    return 'grey';
  };
};

describe('the failure of the policy', () => {
  it.each([
    [0, 1],
    [0, 2],
    [1, 2],
    [2, 4],
  ])('after %i of at most %i turns fails the rollout of an agent that asks again and again', async (after, maxTurns) => {
    const retrying = agent(
      async ({ policy }) => {
        for (let turn = 0; turn <= after; turn++) await persistent(policy, asked(`${turn}`));
        return { answer: 'grey' };
      },
      { maxTurns, failures: 'score' },
    );
    const rollout = await play(retrying, gone(after), { maxReplays: 0 });
    expect(rollout).toMatchObject({ reward: null, stop: 'has_error', error: { type: 'PolicyError', message: 'the server is gone' } });
  });

  it('is no refusal of the request if the server computes NaN, although vLLM answers it with 400', async () => {
    const once = agent(async ({ policy }) => {
      await say(policy, asked('a'));
      await say(policy, asked('b')).catch(() => {});
      return { answer: 'grey' };
    });
    let turns = 0;
    const broken: Turns = () => {
      if (turns++ > 0) throw new NumericPolicyError('The server computed NaN', { status: 400 });
      return 'grey';
    };
    expect(await play(once, broken, { maxReplays: 0, overridesSampling: false })).toMatchObject({
      reward: null,
      error: { type: 'NumericPolicyError' },
    });
  });

  it('counts although a budget was spent afterwards', async () => {
    const moving = agent(
      async ({ policy }) => {
        await say(policy, asked('a')).catch(() => {});
        await say(policy, asked('b'));
        return { answer: await say(policy, asked('c')) };
      },
      { maxTurns: 1 },
    );
    let turns = 0;
    const first: Turns = () => {
      if (turns++ === 0) throw new PolicyError('busy');
      return 'grey';
    };
    expect(await play(moving, first, { maxReplays: 0 })).toMatchObject({ reward: null, error: { type: 'PolicyError', message: 'busy' } });
  });

  it.each(['first', 'last'])('counts where one of two answers to a request fails, if that one ends %s', async (order) => {
    await using gateway = await Gateway.open();
    const other = Promise.withResolvers<void>();
    let turns = 0;
    const half: Turns = async () => {
      const fails = turns++ === 0;
      if (fails === (order === 'last')) await other.promise;
      // What waits goes on once this one's outcome is on record.
      setTimeout(() => setImmediate(other.resolve));
      if (fails) throw new PolicyError('down');
      return 'grey';
    };
    const swallowing = agent(async ({ policy }) => {
      const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
      const failed = await client.chat.completions.create({ model: 'm', n: 2, messages: [{ role: 'user', content: 'a' }] }).catch(() => null);
      await other.promise;
      await new Promise((done) => setImmediate(done));
      return { answer: failed === null ? 'grey' : 'answered' };
    });
    expect(await play(swallowing, half, { gateway, maxReplays: 0 })).toMatchObject({ reward: null, error: { type: 'PolicyError', message: 'down' } });
  });

  it('is made good by asking again, and the two answers have calls of their own, in the order in which they were asked for', async () => {
    await using gateway = await Gateway.open();
    const second = Promise.withResolvers<void>();
    let turns = 0;
    const calls: Turns = async ({ messages }) => {
      if (messages.some(({ role }) => role === 'tool')) return `read ${contentText(messages.at(-1)!.content)}`;
      const turn = turns++;
      if (turn === 0) {
        await second.promise;
        throw new PolicyError('busy');
      }
      second.resolve();
      return `<tool_call>{"name": "find", "arguments": {"q": "q${turn}"}}</tool_call>`;
    };
    const heard: string[] = [];
    const choosing = agent(async ({ policy }) => {
      const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
      const tools = [
        { type: 'function' as const, function: { name: 'find', parameters: { type: 'object', properties: { q: { type: 'string' } } } } },
      ];
      const body = { model: 'm', n: 2, tools, messages: [{ role: 'user' as const, content: 'a' }] };
      await client.chat.completions.create(body).catch(() => {});
      const { choices } = await client.chat.completions.create(body);
      const found = choices.map(({ message }) => message.tool_calls![0]!);
      heard.push(...found.map((call) => (call.type === 'function' ? call.function.arguments : '')));
      expect(new Set(found.map(({ id }) => id)).size).toBe(2);
      const chosen = choices[0]!.message;
      const answer = { role: 'tool' as const, tool_call_id: chosen.tool_calls![0]!.id, content: 'doc' };
      await client.chat.completions.create({ ...body, n: 1, messages: [...body.messages, chosen, answer] });
      return { answer: 'grey' };
    });
    const { error, branches } = await play(choosing, calls, { gateway, maxReplays: 0 });
    expect([error, heard]).toEqual([null, ['{"q":"q2"}', '{"q":"q1"}']]);
    const chosen = branches.find(({ segments }) => segments.length > 1)!;
    expect(chosen.segments[0]!.text).toContain('"q2"');
  });

  it('to count tokens is one in the same words, and fails the rollout if nothing is answered after it', async () => {
    const counted: string[] = [];
    const environment = (goesOn: boolean) =>
      agent(async ({ policy }) => {
        const first = await say(policy, asked('a'));
        const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'broken' }] });
        const answer = await fetch(`${policy.baseURL}/messages/count_tokens`, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json' },
        });
        counted.push(`${answer.status} ${((await answer.json()) as { error: { message: string } }).error.message}`);
        if (goesOn) await say(policy, [...asked('a'), told(first), ...asked('b')]);
        return { answer: 'grey' };
      });
    const failures: unknown[] = [];
    await using gateway = await Gateway.open({ onFailure: (error) => failures.push(error) });
    const template = (messages: readonly { readonly content: unknown }[]) => {
      if (messages[0]!.content === 'broken') throw new PolicyError('the tokenizer is gone');
      return messages.map(({ content }) => String(content)).join('\n\n');
    };
    const options = { gateway, maxReplays: 0, template };
    expect(await play(environment(false), echo, options)).toMatchObject({ reward: null, error: { message: 'the tokenizer is gone' } });
    expect(await play(environment(true), echo, options)).toMatchObject({ reward: 1, error: null });
    expect(counted).toEqual(Array(2).fill('502 The policy failed: the tokenizer is gone'));
    expect(failures).toEqual([]);
  });
});

describe('a request that is refused', () => {
  const json = { responseFormat: { type: 'json' } };

  it('is named where the agent failed of it, whatever its own error says', async () => {
    await using gateway = await Gateway.open();
    const failing = agent(async ({ policy }) => {
      const answer = await fetch(`${policy.baseURL}/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${policy.apiKey}` },
        body: JSON.stringify({
          model: 'gpt-4o',
          messages: [{ role: 'user', content: 'a' }],
          parallel_tool_calls: true,
          top_logprobs: 21,
          logprobs: true,
        }),
      });
      throw new Error(`HTTP ${answer.status}`);
    });
    const { error, refused } = await play(failing, echo, { gateway });
    expect(error).toMatchObject({
      type: 'AgentError',
      reason: 'refused',
      message: expect.stringMatching(/^The agent got no answer from the policy\. Its last request was refused: top_logprobs/),
    });
    expect(error!.chain).toContain('HTTP 400');
    expect(refused).toMatchObject({ count: 1 });
  });

  it('costs no turn, and a rollout in which nothing else was asked has failed, with the reason', async () => {
    const careless = (goesOn: boolean, more: Partial<AgentOptions<Row>> = {}) =>
      agent(
        async ({ policy }) => {
          await say(policy, asked('a'), json).catch(() => {});
          if (goesOn) await say(policy, asked('a'));
          return { answer: 'grey' };
        },
        { maxTurns: 1, ...more },
      );
    expect(await play(careless(true), echo)).toMatchObject({ error: null, reward: 1, turns: 1 });
    for (const more of [{}, { failures: 'score' as const }])
      expect(await play(careless(false, more), echo)).toMatchObject({
        reward: null,
        error: {
          type: 'AgentError',
          reason: 'refused',
          message: expect.stringMatching(/got no answer from the policy.* (responseFormat|response_format) cannot be honoured/),
        },
      });
  });

  it('after sampling costs no turn either, and leaves nothing on record: the likeliest tokens, which the policy does not give', async () => {
    await using gateway = await Gateway.open();
    const curious = agent(
      async ({ policy }) => {
        const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
        const body = { model: 'm', messages: [{ role: 'user' as const, content: 'a' }] };
        await expect(client.chat.completions.create({ ...body, logprobs: true, top_logprobs: 3 })).rejects.toMatchObject({ param: 'top_logprobs' });
        const { choices } = await client.chat.completions.create(body);
        return { answer: choices[0]!.message.content };
      },
      { maxTurns: 1 },
    );
    let turns = 0;
    const rollout = await play(curious, () => (turns++ === 0 ? 'never heard' : 'grey'), { gateway });
    expect(rollout).toMatchObject({ error: null, reward: 1, turns: 1, segments: [{ text: 'grey' }] });
  });

  it('for more answers than turns are left samples none of them, and leaves the turns', async () => {
    await using gateway = await Gateway.open();
    const refusals: string[] = [];
    const greedy = (then: number) =>
      agent(
        async ({ policy }) => {
          const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
          const ask = (n: number) => client.chat.completions.create({ model: 'm', n, messages: [{ role: 'user', content: 'a' }] });
          await ask(3).catch((error: Error) => refusals.push(error.message));
          if (then > 0) await ask(then);
          return { answer: 'grey' };
        },
        { maxTurns: 2 },
      );
    expect(await play(greedy(0), echo, { gateway })).toMatchObject({ reward: null, turns: 0, error: { type: 'AgentError' } });
    expect(await play(greedy(2), echo, { gateway })).toMatchObject({ reward: 1, turns: 2, error: null, stop: 'completed' });
    expect(refusals[0]).toMatch(/n cannot be honoured: it asks for 3 turns, and the rollout has 2 left/);
  });
});

describe('a budget that is spent', () => {
  const spent: Run = async ({ policy }) => {
    await say(policy, asked('a'));
    await say(policy, asked('b')).catch(() => {});
    return {};
  };
  const full: Run = async ({ policy }) => {
    await say(policy, asked('a'));
    await say(policy, asked('x'.repeat(300))).catch(() => {});
    return {};
  };

  it.each([
    new ExecutionError('python does not exist', { endsRun: true }),
    new ModelError('the judge is gone', { role: 'judge' }),
    new PolicyError('another policy is gone'),
  ])('excuses no failure of what the agent depends on: $message', async (error) => {
    for (const run of [spent, full]) {
      const broken = agent(
        async (options) => {
          await run(options);
          throw error;
        },
        { maxTurns: run === spent ? 1 : 9, failures: 'score' },
      );
      const rollout = await play(broken, () => 'ok', { maxModelLen: 100, maxReplays: 0 });
      expect(rollout).toMatchObject({ reward: null, error: { type: error.name, message: error.message } });
    }
  });

  it('explains what the agent throws, but not once it had a further turn', async () => {
    const throws = (run: Run, goesOn: boolean) =>
      agent(
        async (options) => {
          await run(options);
          if (goesOn) await say(options.policy, asked('short'));
          throw new Error('a bug');
        },
        { maxTurns: run === spent ? 1 : 9 },
      );
    const options = { maxModelLen: 100 };
    expect(await play(throws(spent, false), () => 'ok', options)).toMatchObject({ reward: 0, stop: 'max_turns_reached' });
    expect(await play(throws(full, false), () => 'ok', options)).toMatchObject({ reward: 0, stop: 'prompt_too_long' });
    expect(await play(throws(full, true), () => 'ok', options)).toMatchObject({ reward: null, error: { message: 'a bug' } });
  });

  it('gives the last turn again to a client that lost its connection', async () => {
    const answers: string[] = [];
    const losing = (more: Partial<AgentOptions<Row>>) =>
      agent(async ({ policy }) => {
        const lost = new AbortController();
        const first = say(policy, asked('a'), { abortSignal: lost.signal }).catch(() => {});
        lost.abort();
        await first;
        answers.push(await say(policy, asked('a')), await say(policy, asked('a')));
        return { answer: 'grey' };
      }, more);
    for (const more of [{ maxTurns: 1 }, { limits: { completionTokens: 1 } }])
      expect(await play(losing(more), () => 'greys')).toMatchObject({ error: null, reward: 1, turns: 1 });
    expect(answers).toEqual(Array(4).fill('greys'));
  });

  it('is not spent by counting tokens, which goes on after the last turn', async () => {
    await using gateway = await Gateway.open();
    const counting = agent(
      async ({ policy }) => {
        await say(policy, asked('a'));
        const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'four' }] });
        const counted = await fetch(`${policy.baseURL}/messages/count_tokens`, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json' },
        });
        return { answer: 'grey', counted: await counted.json() };
      },
      { maxTurns: 1 },
    );
    expect(await play(counting, echo, { gateway })).toMatchObject({ error: null, stop: 'completed', state: { counted: { input_tokens: 4 } } });
  });

  it('at the first prompt is a failure that says what to do', async () => {
    const long = agent(
      async ({ policy }) => {
        await say(policy, asked('x'.repeat(300))).catch(() => {});
        return { answer: 'grey' };
      },
      { failures: 'score' },
    );
    expect(await play(long, echo, { maxModelLen: 100 })).toMatchObject({
      reward: null,
      error: { type: 'UnplayedError', message: expect.stringContaining('shorten the prompts') },
    });
  });
});

describe('the model of a role', () => {
  const roles = (replies: readonly (string | null)[]): RoleDeclarations => {
    const left = [...replies];
    const generate = async () => {
      const text = left.length > 1 ? left.shift()! : left[0]!;
      if (text === null) throw new ModelError('the judge is gone', { role: 'judge' });
      return { text, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop' as const, version: null };
    };
    return { judge: { about: 'judges', default: 'builtin', builtin: { name: 'own', generate } } };
  };
  const overHttp: Run = async ({ policy }) => {
    await say(policy, asked('a'));
    const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey, maxRetries: 0 });
    const ask = () => client.chat.completions.create({ model: 'judge', messages: [{ role: 'user', content: 'b' }] });
    const judged = await ask().catch(() => ask().catch(() => null));
    return { answer: judged === null ? 'grey, without a judge' : `grey, ${judged.choices[0]!.message.content}` };
  };
  const inProcess: Run = async ({ policy, models, signal }) => {
    await say(policy, asked('a'));
    const ask = () => models!['judge']!.generate([{ role: 'user', content: 'b' }], { maxTokens: 5, signal });
    const judged = await ask().catch(() => ask().catch(() => null));
    return { answer: judged === null ? 'grey, without a judge' : `grey, ${judged.text}` };
  };

  it.each([
    ['over HTTP', overHttp],
    ['in the process', inProcess],
    [
      'over HTTP, and then throws',
      async (options) => {
        await overHttp(options);
        throw new Error('no judge');
      },
    ],
  ] satisfies [string, Run][])('that fails fails the rollout of an agent that swallows it %s', async (_, run) => {
    await using gateway = await Gateway.open();
    const rollout = await play(agent(run, { roles: roles([null]), failures: 'score' }), echo, { gateway, maxReplays: 0 });
    expect(rollout).toMatchObject({ reward: null, error: { type: 'ModelError', message: 'the judge is gone', source: 'model' } });
  });

  it('that answers when it is asked again has not failed, and is answered after the last turn of the policy', async () => {
    await using gateway = await Gateway.open();
    for (const run of [overHttp, inProcess]) {
      const environment = agent(run, { roles: roles([null, 'right']), maxTurns: 1 });
      expect(await play(environment, echo, { gateway, maxReplays: 0 })).toMatchObject({
        error: null,
        reward: 1,
        state: { answer: 'grey, right' },
        stop: 'completed',
      });
    }
  });

  it('that fails an agent without a policy fails its rollout too', async () => {
    const alone = agent(
      async ({ models, signal }) => {
        await models!['judge']!.generate([{ role: 'user', content: 'b' }], { maxTokens: 5, signal }).catch(() => {});
        return { answer: 'grey' };
      },
      { roles: roles([null]), asksPolicy: false },
    );
    expect(await play(alone, echo, { maxReplays: 0 })).toMatchObject({ reward: null, error: { type: 'ModelError', message: 'the judge is gone' } });
  });
});
