import type { ToolCall } from './message.ts';

/** The turn as text, with its calls in Hermes' format, so that a rubric reads the same text whether the server or this package parsed the calls. */
export function spelledCalls(content: string, calls: readonly ToolCall[]): string {
  const spelled = calls.map(
    ({ name, arguments: args }) => `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${args === '' ? '{}' : args}}\n</tool_call>`,
  );
  return [...(content === '' ? [] : [content]), ...spelled].join('\n');
}
