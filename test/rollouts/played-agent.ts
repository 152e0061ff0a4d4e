/** Agents in this process that ask a scripted policy. */
import type { LanguageModelV4Prompt } from '@ai-sdk/provider';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { AgentEnv, type AgentOptions } from '../../src/core/agent-env.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { AgentPolicy } from '../../src/core/environment.ts';
import { contentText } from '../../src/core/message.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';

const rows = new Dataset<Row>('colours', [{ exampleId: 0, prompt: [{ role: 'user', content: 'Which colour has the heron?' }], answer: 'grey' }]);
const rubric = new Rubric<Row>({ funcs: [reward(({ row, state }) => Number(String(state['answer']).includes(row.answer!)), { name: 'right' })] });

export function agent(run: NonNullable<AgentOptions<Row>['run']>, more: Partial<AgentOptions<Row>> = {}): AgentEnv {
  return new AgentEnv({ id: 'colours', eval: rows, rubric, run, ...more });
}

export type Turns = ScriptedOptions['turns'];

/** One rollout of a policy whose tokens are bytes. */
export async function play(
  environment: AgentEnv,
  turns: Turns,
  { maxModelLen = null, template, ...own }: Partial<RunOptions<Row>> & Pick<ScriptedOptions, 'maxModelLen' | 'template'> = {},
): Promise<Rollout> {
  const client = new ScriptedClient({ turns, logProb: () => -0.5, maxModelLen, ...(template === undefined ? {} : { template }) });
  const options = { environment, client, maxTokens: null, maxConcurrent: 1, timeoutMs: null, seed: 0, sampling: { temperature: 1, topP: 1 } };
  for await (const { rollouts } of runRollouts([{ row: rows.at(0), indices: [0] }], { ...options, signal: new AbortController().signal, ...own }))
    return rollouts[0]!;
  throw new Error('nothing was played');
}

export const asked = (...messages: readonly string[]): LanguageModelV4Prompt =>
  messages.map((text) => ({ role: 'user', content: [{ type: 'text', text }] }));
export const told = (text: string): LanguageModelV4Prompt[number] => ({ role: 'assistant', content: [{ type: 'text', text }] });

export async function say(policy: AgentPolicy, prompt: LanguageModelV4Prompt, more: object = {}): Promise<string> {
  const { content } = await policy.languageModel().doGenerate({ prompt, ...more });
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('');
}

export const echo: Turns = ({ messages, index }) => `${index}: ${contentText(messages.at(-1)!.content)}.`;
