/**
 * Agents of the AI SDK over a few notes, for tests with a real vLLM: in the process or over one of the three APIs, as one conversation or as several that leave each other.
 * `vf-eval test/vllm/note-agents.ts -a '{"client": "chat", "shape": "forks"}'`
 */
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, type LanguageModel, type ModelMessage, tool, ToolLoopAgent } from 'ai';
import { AgentEnv, type AgentPolicy, Dataset, reward, type Row, Rubric } from 'vf-search';
import { z } from 'zod';

export const CLIENTS = ['in-process', 'chat', 'responses', 'messages'] as const;

const MODELS: Readonly<Record<(typeof CLIENTS)[number], (policy: AgentPolicy) => LanguageModel>> = {
  'in-process': (policy) => policy.languageModel(),
  chat: ({ baseURL, apiKey, name }) => createOpenAI({ baseURL, apiKey }).chat(name),
  responses: ({ baseURL, apiKey, name }) => createOpenAI({ baseURL, apiKey }).responses(name),
  messages: ({ baseURL, apiKey, name }) => createAnthropic({ baseURL, apiKey })(name),
};

const NOTES = ['Doc 1(Title: "Heron") The colour of the heron is grey.', 'Doc 2(Title: "Robin") The colour of the robin is red.'];
const find_note = tool({
  description: 'Finds notes that contain words of a query.',
  inputSchema: z.object({ query: z.string() }),
  execute: async ({ query }) =>
    NOTES.filter((note) => note.toLowerCase().includes(query.toLowerCase())).join('\n') || 'No note contains these words.',
});
const TASK = 'Look things up with find_note before you answer.';

interface Asking {
  readonly model: LanguageModel;
  readonly question: string;
  readonly abortSignal: AbortSignal;
}

const user = (content: string): ModelMessage => ({ role: 'user', content });
const written = (content: string): ModelMessage => ({ role: 'assistant', content });

/** One conversation: the calls of tools, and a second question behind the first answer. */
async function loop({ model, question, abortSignal }: Asking): Promise<string> {
  const agent = new ToolLoopAgent({ model, instructions: TASK, tools: { find_note }, stopWhen: isStepCount(3) });
  const first = await agent.generate({ prompt: question, abortSignal });
  const messages = [user(question), ...first.responseMessages, user('Are you sure?')];
  return (await agent.generate({ messages, abortSignal })).text;
}

/** A conversation that is continued twice, once behind a turn that the agent wrote; two sub-agents at once; and a history that became a summary. */
async function forks({ model, question, abortSignal }: Asking): Promise<string> {
  const ask = async (messages: ModelMessage[], system = TASK) => (await generateText({ model, system, messages, abortSignal })).text;
  const first = await generateText({ model, system: TASK, prompt: question, abortSignal });
  const begun = [user(question), ...first.responseMessages];
  await ask([...begun, user('Are you sure?')]);
  await ask([...begun, user('What colour?'), written('It is green.'), user('No. What colour?')]);
  const parts = await Promise.all(['Read the note on the heron.', 'Read the note on the robin.'].map((part) => ask([user(question)], part)));
  const summary = [user(`${question} Two readers said: ${parts.join(' / ')}`)];
  const { text, responseMessages } = await generateText({ model, system: TASK, messages: summary, abortSignal });
  await ask([...summary, ...responseMessages, user('In one word?')]);
  return text;
}

const SHAPES = { loop, forks } as const;

interface Arguments {
  readonly client?: keyof typeof MODELS;
  readonly shape?: keyof typeof SHAPES;
}

export function loadEnvironment({ client = 'in-process', shape = 'loop' }: Arguments = {}): AgentEnv {
  const rows = ['heron', 'robin'].map((bird): Row => ({
    exampleId: bird,
    prompt: [{ role: 'user', content: `What is the colour of the ${bird}?` }],
  }));
  return new AgentEnv({
    id: 'note-agents',
    eval: new Dataset('birds', rows),
    rubric: new Rubric({ funcs: [reward(({ state }) => Number(String(state['answer']).length > 0), { name: 'answers' })] }),
    limits: { responseTokens: 40 },
    run: async ({ row, policy, signal }) => {
      const question = row.prompt[0]!.content as string;
      return { answer: await SHAPES[shape]({ model: MODELS[client](policy), question, abortSignal: signal }) };
    },
  });
}
