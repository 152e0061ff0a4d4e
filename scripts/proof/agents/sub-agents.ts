/** An agent that asks two sub-agents at the same time, each with a prompt of its own, and takes the answer on which they agree, or the first one. */
import { isStepCount, jsonSchema, tool, ToolLoopAgent } from 'ai';
import { SEARCH, strangeAgent, TASK } from './strange-agent.ts';

const SUB_AGENTS = ['You are the first reader.', 'You are the second reader.'];
const STEPS = 3;

export const loadEnvironment = (args: { readonly world: string }) =>
  strangeAgent(
    'sub-agents',
    args,
    async ({ row, policy, search, signal }) => {
      const find = tool({
        description: SEARCH.description,
        inputSchema: jsonSchema<{ query: string }>(SEARCH.parameters),
        execute: ({ query }) => search(query),
      });
      const answers = await Promise.all(
        SUB_AGENTS.map(async (name) => {
          const agent = new ToolLoopAgent({
            model: policy.languageModel(),
            instructions: `${TASK} ${name}`,
            tools: { find_note: find },
            stopWhen: isStepCount(STEPS),
          });
          return (await agent.generate({ prompt: row.question, abortSignal: signal })).text;
        }),
      );
      return answers.find((text) => text.includes('<answer>')) ?? answers[0]!;
    },
    { maxTurns: STEPS * SUB_AGENTS.length },
  );
