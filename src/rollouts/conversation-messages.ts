/** The messages that a conversation adds: the policy's turns and the environment's answers. */
import type { Observation } from '../core/environment.ts';
import type { Message, ToolCall } from '../core/message.ts';
import type { ToolCallAttempt } from '../core/tool-calls.ts';

/** The policy's turn. */
export function assistantMessage(content: string, toolCalls: readonly ToolCallAttempt[]): Message {
  return { role: 'assistant', content, ...(toolCalls.length === 0 ? {} : { toolCalls: toolCalls.map(calledAs) }) };
}

/**
 * A call as later prompts, the record and an agent have it: of one that could not be read, the name (empty if there is none) and the arguments as the policy wrote them, and what is
 * wrong with it.
 */
export function calledAs(attempt: ToolCallAttempt): ToolCall {
  const { id, text } = attempt;
  if (!('problem' in attempt)) return { id, name: attempt.name, arguments: JSON.stringify(attempt.args) };
  const { problem: malformed } = attempt;
  const begun = /^\s*\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*/.exec(text);
  if (begun === null) return { id, name: '', arguments: text, malformed };
  return { id, name: begun[1]!, arguments: firstValue(text.slice(begun[0].length)), malformed };
}

/** The value with which a text begins, without what follows it in its object; the whole text if it is not closed. */
function firstValue(text: string): string {
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (isQuoted && char === '\\') at += 1;
    else if (char === '"') isQuoted = !isQuoted;
    else if (isQuoted) continue;
    else if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') depth -= 1;
    else if (char === ',' && depth === 0) depth = -1;
    else continue;
    if (depth < 0) return text.slice(0, at).trimEnd();
    if (depth === 0 && !isQuoted) return text.slice(0, at + 1);
  }
  return text.trimEnd();
}

/** The messages of an observation; text becomes a user message. */
export function observedMessages(observation: Observation): readonly Message[] {
  return 'text' in observation ? [{ role: 'user', content: observation.text }] : observation.messages;
}
