/** A `ToolLoopAgent` of the AI SDK; its model is the policy, in the same process. */
import { isStepCount, jsonSchema, tool, ToolLoopAgent } from 'ai';
import { MAX_TURNS, SEARCH, strangeAgent, TASK } from './strange-agent.ts';

export const loadEnvironment = (args: { readonly world: string }) =>
  strangeAgent('ai-sdk', args, async ({ row, policy, search, signal }) => {
    const agent = new ToolLoopAgent({
      model: policy.languageModel(),
      instructions: TASK,
      tools: {
        find_note: tool({
          description: SEARCH.description,
          inputSchema: jsonSchema<{ query: string }>(SEARCH.parameters),
          execute: ({ query }) => search(query),
        }),
      },
      stopWhen: isStepCount(MAX_TURNS),
    });
    const { text } = await agent.generate({ prompt: row.question, abortSignal: signal });
    return text;
  });
