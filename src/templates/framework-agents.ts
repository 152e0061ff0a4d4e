/** The modules `agent.ts` that `vf-init --agent` writes, one for each framework. Each is what a user of the framework would write, but for the address of its model. */

const TASK = 'Look things up with find_note before you answer. End with <answer> your answer </answer>, in a few words.';

export const aiSdkAgent = `/** The agent: a loop of the AI SDK over one tool. Its model is the policy, in this process. */
import { isStepCount, tool, ToolLoopAgent } from 'ai';
import type { AgentPolicy } from 'vf-search';
import { z } from 'zod';
import { findNotes } from './notes.ts';

const TASK = '${TASK}';

const find_note = tool({
  description: 'Finds notes that contain words of a query.',
  inputSchema: z.object({ query: z.string().describe('What to look for') }),
  execute: async ({ query }) => findNotes(query),
});

/** The text of the last turn. */
export async function runAgent(question: string, policy: AgentPolicy, signal: AbortSignal): Promise<string> {
  const agent = new ToolLoopAgent({ model: policy.languageModel(), instructions: TASK, tools: { find_note }, stopWhen: isStepCount(4) });
  const { text } = await agent.generate({ prompt: question, abortSignal: signal });
  return text;
}
`;

export const openAIAgent = `/** The agent: a loop of OpenAI's Agents SDK over one tool. Its model is the policy, behind an address on this machine. */
import { Agent, ModelBehaviorError, OpenAIProvider, Runner, tool } from '@openai/agents';
import type { AgentPolicy } from 'vf-search';
import { z } from 'zod';
import { findNotes } from './notes.ts';

const TASK = '${TASK}';

const findNote = tool({
  name: 'find_note',
  description: 'Finds notes that contain words of a query.',
  parameters: z.object({ query: z.string().describe('What to look for') }),
  execute: async ({ query }) => findNotes(query),
});

/** The text of the last turn. */
export async function runAgent(question: string, policy: AgentPolicy, signal: AbortSignal): Promise<string> {
  // Every rollout has an address of its own. useResponses: false asks over Chat Completions instead.
  const modelProvider = new OpenAIProvider({ baseURL: policy.baseURL, apiKey: policy.apiKey, useResponses: true });
  // Traces would go to OpenAI.
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const agent = new Agent({ name: 'Searcher', instructions: TASK, model: policy.name, tools: [findNote] });
  try {
    // More turns than the environment allows: it ends the rollout first, and scores it.
    const { finalOutput } = await runner.run(agent, question, { maxTurns: 10, signal });
    return finalOutput ?? '';
  } catch (error) {
    // What the policy wrote is a wrong answer, not a failure of the agent: a call of a tool that does not exist, or a turn that was cut off at its limit of tokens.
    if (error instanceof ModelBehaviorError || (error instanceof Error && error.message.includes('response.incomplete'))) return '';
    throw error;
  }
}
`;

export const langGraphAgent = `/** The agent: a ReAct agent of LangGraph.js over one tool. Its model is the policy, behind an address on this machine. */
import { tool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import type { AgentPolicy } from 'vf-search';
import { z } from 'zod';
import { findNotes } from './notes.ts';

const TASK = '${TASK}';

const findNote = tool(async ({ query }: { query: string }) => findNotes(query), {
  name: 'find_note',
  description: 'Finds notes that contain words of a query.',
  schema: z.object({ query: z.string().describe('What to look for') }),
});

/** The text of the last turn. */
export async function runAgent(question: string, policy: AgentPolicy, signal: AbortSignal): Promise<string> {
  // Every rollout has an address of its own.
  const llm = new ChatOpenAI({ model: policy.name, apiKey: policy.apiKey, configuration: { baseURL: policy.baseURL } });
  const agent = createReactAgent({ llm, tools: [findNote], prompt: TASK });
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: question }] }, { signal });
  return messages.at(-1)?.text ?? '';
}
`;

export const mastraAgent = `/** The agent: one of Mastra over one tool. Its model is the policy, behind an address on this machine. */
import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import type { AgentPolicy } from 'vf-search';
import { z } from 'zod';
import { findNotes } from './notes.ts';

const TASK = '${TASK}';

const find_note = createTool({
  id: 'find_note',
  description: 'Finds notes that contain words of a query.',
  inputSchema: z.object({ query: z.string().describe('What to look for') }),
  execute: async ({ query }) => findNotes(query),
});

/** The text of the last turn. */
export async function runAgent(question: string, policy: AgentPolicy, signal: AbortSignal): Promise<string> {
  // Every rollout has an address of its own.
  const model = { providerId: 'vf-search', modelId: policy.name, url: policy.baseURL, apiKey: policy.apiKey };
  const agent = new Agent({ id: 'searcher', name: 'Searcher', instructions: TASK, model, tools: { find_note } });
  const { text } = await agent.generate(question, { maxSteps: 4, abortSignal: signal });
  return text;
}
`;
