/** The messages that a conversation adds: the policy's turns and the environment's answers. */
import type { Observation } from '../core/environment.ts';
import type { Message } from '../core/message.ts';
import type { ToolCallAttempt } from '../core/tool-calls.ts';

/** The policy's turn. A malformed call has no name, and its text stands for its arguments. */
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

/** The messages of an observation; text becomes a user message. */
export function observedMessages(observation: Observation): readonly Message[] {
  return 'text' in observation ? [{ role: 'user', content: observation.text }] : observation.messages;
}
