/** An agent of LangGraph, over Chat Completions; its model has the address of the policy. */
import { tool } from '@langchain/core/tools';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { MAX_TURNS, SEARCH, strangeAgent, TASK } from './strange-agent.ts';

export const loadEnvironment = (args: { readonly world: string }) =>
  strangeAgent('langgraph', args, async ({ row, policy, search, signal }) => {
    const find = tool(({ query }: { query: string }) => search(query), {
      name: SEARCH.name,
      description: SEARCH.description,
      schema: SEARCH.parameters,
    });
    const llm = new ChatOpenAI({ model: policy.name, apiKey: policy.apiKey, configuration: { baseURL: policy.baseURL } });
    const agent = createReactAgent({ llm, tools: [find], prompt: TASK });
    // A turn of the policy and one of the tools are a step each.
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content: row.question }] }, { recursionLimit: 2 * MAX_TURNS + 1, signal });
    return messages.at(-1)!.text;
  });
