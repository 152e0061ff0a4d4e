/** An agent of the OpenAI Agents SDK, over Responses, streamed; its client has the address of the policy. */
import { Agent, OpenAIResponsesModel, Runner, tool } from '@openai/agents';
import { OpenAI } from 'openai';
import { z } from 'zod';
import { MAX_TURNS, SEARCH, strangeAgent, type Surroundings, TASK } from './strange-agent.ts';

export const loadEnvironment = (args: { readonly world: string }) => strangeAgent('openai-agents', args, answer, { failures: 'score' });

/** The SDK throws where a limit cut an answer off: such a rollout has a wrong answer, and is scored. */
async function answer({ row, policy, search, signal }: Surroundings): Promise<string> {
  const client = new OpenAI({ baseURL: policy.baseURL, apiKey: policy.apiKey });
  const agent = new Agent({
    name: 'Reader',
    instructions: TASK,
    model: new OpenAIResponsesModel(client, policy.name),
    tools: [
      tool({
        name: SEARCH.name,
        description: SEARCH.description,
        parameters: z.object({ query: z.string().describe(SEARCH.parameters.properties.query.description) }),
        execute: ({ query }) => search(query),
      }),
    ],
  });
  const run = await new Runner({ tracingDisabled: true }).run(agent, row.question, { stream: true, maxTurns: MAX_TURNS, signal });
  for await (const _ of run);
  await run.completed;
  return run.finalOutput ?? '';
}
