import { isStepCount, ToolLoopAgent, tool } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { AgentEnv, type AgentOptions } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { contentText } from '../../src/core/message.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';

const rows = new Dataset<Row>('colours', [{ exampleId: 0, prompt: [{ role: 'user', content: 'Which colour has the heron?' }], answer: 'grey' }]);
const rubric = new Rubric<Row>({ funcs: [reward(({ row, state }) => Number(String(state['answer']).includes(row.answer!)), { name: 'right' })] });

function agent(run: NonNullable<AgentOptions<Row>['run']>, more: Partial<AgentOptions<Row>> = {}): AgentEnv {
  return new AgentEnv({ id: 'colours', eval: rows, rubric, run, ...more });
}

type Turns = ScriptedOptions['turns'];

async function play(environment: AgentEnv, turns: Turns, more: Partial<RunOptions<Row>> = {}): Promise<Rollout> {
  const client = new ScriptedClient({ turns, logProb: () => -0.5 });
  const options = { environment, client, maxTokens: null, maxConcurrent: 1, timeoutMs: null, seed: 0, sampling: { temperature: 1, topP: 1 } };
  for await (const { rollouts } of runRollouts([{ row: rows.at(0), indices: [0] }], { ...options, signal: new AbortController().signal, ...more }))
    return rollouts[0]!;
  throw new Error('nothing was played');
}

const call = (query: string) => `<tool_call>{"name": "find", "arguments": {"query": ${JSON.stringify(query)}}}</tool_call>`;
const find = tool({ description: 'Finds.', inputSchema: z.object({ query: z.string() }), execute: async ({ query }) => `Doc on ${query}` });
const searches: Turns = ({ messages }) =>
  messages.some(({ role }) => role === 'tool') ? '<think>so</think>\nIt is grey.' : `Let me look.\n${call('heron')}`;

const loop = agent(async ({ row, policy, signal }) => {
  const looping = new ToolLoopAgent({ model: policy.languageModel(), instructions: 'Look things up.', tools: { find }, stopWhen: isStepCount(4) });
  const { text } = await looping.generate({ prompt: contentText(row.prompt[0]!.content), abortSignal: signal });
  return { answer: text };
});

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
});
