/** What the server and the chat template of a policy refuse, and what an agent hears of stop strings. */
import type { LanguageModelV4CallOptions, LanguageModelV4Prompt } from '@ai-sdk/provider';
import { describe, expect, it } from 'vitest';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { AgentEnv, type AgentOptions } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { AgentPolicy } from '../../src/core/environment.ts';
import { PolicyError } from '../../src/core/errors.ts';
import { contentText } from '../../src/core/message.ts';
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

  it('because of its settings is a 400 in an evaluation, and fails the rollout where they are the run’s', async () => {
    const heard: unknown[] = [];
    let asked = 0;
    const refusing: ScriptedOptions = {
      turns: () => {
        if (asked++ % 2 === 0) throw new PolicyError('min_tokens must be at most max_tokens', { status: 400 });
        return 'yes';
      },
    };
    const run: Run = async ({ policy }) => {
      await ask(policy, [user('a')], { maxOutputTokens: 1 }).catch((error: unknown) => heard.push(error));
      await ask(policy, [user('b')]);
      return {};
    };
    expect((await play(run, refusing)).error).toBeNull();
    expect(heard).toEqual([
      expect.objectContaining({ statusCode: 400, message: "The policy's server refused the request: min_tokens must be at most max_tokens" }),
    ]);
    heard.length = 0;
    expect((await play(run, refusing, { overridesSampling: true })).error).toMatchObject({ type: 'PolicyError' });
    expect(heard).toEqual([expect.objectContaining({ statusCode: 502 })]);
  });

  it('is told where the agent gets no answer at all', async () => {
    const run: Run = async ({ policy }) => {
      await ask(policy, [user('a')], { toolChoice: { type: 'required' } }).catch(() => {});
      return {};
    };
    const { error } = await play(run, { turns: ['one'] });
    expect(error).toMatchObject({ type: 'AgentError', reason: 'refused' });
    expect(error!.message).toBe(
      'The agent of agent got no answer from the policy. Its last request was refused: toolChoice cannot be honoured: the request offers no tool.',
    );
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
