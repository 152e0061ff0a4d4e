/** A conversation's own messages: what the policy said, and what the environment answered. */
import type { Observation } from '../core/environment.ts';
import type { Message } from '../core/message.ts';
import type { ToolCallAttempt } from '../core/tool-calls.ts';

/** The policy's turn. Calls that cannot be read have no name, and their text is their arguments. */
export function assistantMessage(content: string, toolCalls: readonly ToolCallAttempt[]): Message {
  if (toolCalls.length === 0) return { role: 'assistant', content };
  return {
    role: 'assistant',
    content,
    toolCalls: toolCalls.map((call) =>
      'problem' in call ? { id: call.id, name: '', arguments: call.text } : { id: call.id, name: call.name, arguments: JSON.stringify(call.args) },
    ),
  };
}

/** Text is a user message. */
export function observedMessages(observation: Observation): readonly Message[] {
  return 'text' in observation ? [{ role: 'user', content: observation.text }] : observation.messages;
}
