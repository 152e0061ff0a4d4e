/**
 * The normal form of a message: two messages with the same key are one message that a client tells in two ways. Clients keep the ids of calls; they write arguments anew, and
 * turn a text of blanks before a call into null. What a client adds for itself (names, ids of items, cache marks) is not in a `Message` any more.
 */
import { canonicalJson } from '../core/canonical-json.ts';
import { contentImages, contentText, type Message, type ToolCall } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { isObject } from '../schemas/is-object.ts';
import { argumentsOrNull } from '../schemas/arguments-or-null.ts';

/** Of a message that the agent wrote, or of a turn of the policy that it tells as another one. */
export function messageKey({ role, content, toolCalls = [], toolCallId = '' }: Message): string {
  const images = contentImages(content).map(({ sha256 }) => sha256);
  const text = contentText(content);
  return JSON.stringify([role, toolCallId, role === 'assistant' ? text.trim() : text, images, toolCalls.map(callKey)]);
}

/** True if one message is written exactly as the other one, which a look at their texts can tell. False says nothing. */
export function isWrittenAs(a: Message, b: Message): boolean {
  if (a === b) return true;
  if (a.role !== b.role || a.content !== b.content || a.toolCallId !== b.toolCallId) return false;
  const [calls, others] = [a.toolCalls ?? [], b.toolCalls ?? []];
  return (
    calls.length === others.length &&
    calls.every(({ id, name, arguments: args }, i) => id === others[i]!.id && name === others[i]!.name && args === others[i]!.arguments)
  );
}

function callKey({ id, name, arguments: text }: ToolCall): readonly unknown[] {
  const args = argumentsOrNull(text);
  return [id, name, args === null ? text : canonicalJson(args)];
}

/** A turn of the policy as it was answered. */
export interface AnsweredTurn {
  readonly content: string;
  readonly toolCalls: readonly ToolCall[];
}

/**
 * True if the message tells this turn: the ids of its calls are those of the turn, whatever the arguments became, and its text is the turn's, or was left out before calls.
 * Blanks at the ends do not count. Clients give another name to calls that they could not make; a call that could be made and has another name is not the policy's any more.
 * @param tools that the policy may call
 */
export function tells({ role, content, toolCalls = [] }: Message, turn: AnsweredTurn, tools: readonly Pick<ToolSpec, 'name'>[]): boolean {
  if (role !== 'assistant' || toolCalls.length !== turn.toolCalls.length) return false;
  for (const [i, { id, name }] of toolCalls.entries()) {
    const own = turn.toolCalls[i]!;
    if (id !== own.id || (name !== own.name && canBeMade(own, tools))) return false;
  }
  if (content === turn.content) return true;
  const told = contentText(content).trim();
  return told === turn.content.trim() || (told === '' && toolCalls.length > 0);
}

function canBeMade({ name, arguments: text }: ToolCall, tools: readonly Pick<ToolSpec, 'name'>[]): boolean {
  return tools.some((tool) => tool.name === name) && isObject(argumentsOrNull(text));
}
