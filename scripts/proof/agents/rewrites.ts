/**
 * An agent that rewrites its history: after each search it forgets the call and keeps what was found, as a summary in the question. Every list of messages leaves the one before
 * it, so each of its turns is a branch.
 */
import { generateText, jsonSchema, tool } from 'ai';
import { MAX_TURNS, SEARCH, strangeAgent, TASK } from './strange-agent.ts';

export const loadEnvironment = (args: { readonly world: string }) =>
  strangeAgent('rewrites', args, async ({ row, policy, search, signal }) => {
    const find = tool({
      description: SEARCH.description,
      inputSchema: jsonSchema<{ query: string }>(SEARCH.parameters),
      execute: ({ query }) => search(query),
    });
    let notes = '';
    for (let turn = 1; ; turn++) {
      const prompt = notes === '' ? row.question : `${row.question}\n${notes}`;
      const { text, toolResults } = await generateText({
        model: policy.languageModel(),
        system: TASK,
        prompt,
        tools: { find_note: find },
        abortSignal: signal,
      });
      const [found] = toolResults;
      if (found === undefined || turn === MAX_TURNS) return text;
      notes = String(found.output);
    }
  });
