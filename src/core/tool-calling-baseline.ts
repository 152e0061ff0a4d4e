/**
 * A policy without a model that calls tools by a script. With it, an environment with tools of its own can be evaluated at once, and its tools, rewards and rows are
 * tried before a model is. It writes calls as Hermes and Qwen models do, so it plays native and text calls.
 */
import type { Baseline } from './environment.ts';
import { contentText, type Message } from './message.ts';

interface ScriptedCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface ToolScript {
  /** The name in results and folders. @default 'scripted-baseline' */
  readonly name?: string;
  /** The way it answers, worded to follow "the built-in baseline plays:". @default 'it calls the tools by a script and answers from their results' */
  readonly description?: string;
  /** Returns the next calls, from the question and the results so far, oldest first. If there are none, it answers. */
  readonly calls: (question: string, results: readonly string[]) => readonly ScriptedCall[];
  /** The last turn. */
  readonly answer: (question: string, results: readonly string[]) => string;
}

/**
 * @example
 * new ToolEnv({ ..., baseline: toolCallingBaseline({
 *   calls: (question, results) => (results.length === 0 ? [{ name: 'find_note', arguments: { query: question } }] : []),
 *   answer: (_, [note = '']) => `<answer> ${note} </answer>`,
 * }) })
 */
export function toolCallingBaseline(script: ToolScript): Baseline {
  const { name = 'scripted-baseline', description = 'it calls the tools by a script and answers from their results' } = script;
  return {
    name,
    description,
    reply(messages) {
      const question = contentText(messages.find(({ role }) => role === 'user')?.content ?? '');
      const results = messages.flatMap(resultsIn);
      const calls = script.calls(question, results);
      if (calls.length === 0) return script.answer(question, results);
      return calls.map((call) => `<tool_call>\n${JSON.stringify({ name: call.name, arguments: call.arguments })}\n</tool_call>`).join('\n');
    },
  };
}

/** The answers of tools: a message each for native calls, blocks of one user message for text calls. */
function resultsIn({ role, content }: Message): string[] {
  const text = contentText(content);
  if (role === 'tool') return [text];
  if (role !== 'user' || !text.startsWith('<tool_response>')) return [];
  return text
    .split('<tool_response>\n')
    .slice(1)
    .map((block) => block.slice(0, block.lastIndexOf('\n</tool_response>')));
}
