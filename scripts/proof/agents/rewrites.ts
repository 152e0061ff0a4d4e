/**
 * An agent that rewrites its history after each search: it keeps the last search and what it found, under a call of its own, and drops the rest. Every list of messages leaves the one before it,
 * so each of its turns is a branch.
 */
import { generateText, jsonSchema, type ModelMessage, tool } from 'ai';
import { MAX_TURNS, SEARCH, strangeAgent, TASK } from './strange-agent.ts';

const NOTES = { toolCallId: 'notes', toolName: SEARCH.name } as const;

export const loadEnvironment = (args: { readonly world: string }) =>
  strangeAgent('rewrites', args, async ({ row, policy, search, signal }) => {
    const find = tool({
      description: SEARCH.description,
      inputSchema: jsonSchema<{ query: string }>(SEARCH.parameters),
      execute: ({ query }) => search(query),
    });
    const question: ModelMessage = { role: 'user', content: row.question };
    let messages: readonly ModelMessage[] = [question];
    for (let turn = 1; ; turn++) {
      const { text, toolResults } = await generateText({
        model: policy.languageModel(),
        system: TASK,
        messages: [...messages],
        tools: { find_note: find },
        abortSignal: signal,
      });
      const [found] = toolResults;
      if (found === undefined || turn === MAX_TURNS) return text;
      messages = [question, ...summary(found.input as { readonly query: string }, String(found.output))];
    }
  });

/** The last search and what it found, as if it had been the first. */
function summary(input: { readonly query: string }, notes: string): readonly ModelMessage[] {
  return [
    { role: 'assistant', content: [{ type: 'tool-call', ...NOTES, input }] },
    { role: 'tool', content: [{ type: 'tool-result', ...NOTES, output: { type: 'text', value: notes } }] },
  ];
}
