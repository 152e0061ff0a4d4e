/** Messages of a rollout as its files and the servers write them. */
import { type ContentPart, contentText, type Message, type ToolCall } from '../core/message.ts';
import type { WireMessage } from '../schemas/branch-columns.ts';
import type { Branch, Rollout } from './rollout.ts';

/**
 * The response as messages. In continuation format under a token policy the whole episode is one assistant turn and so is this; elsewhere turns
 * and observations are messages of their own.
 */
export function completionMessages({ segments, turnFormat, branches }: Completed): WireMessage[] {
  if (segments.length === 0) return [];
  if (turnFormat === 'continuation' && (branches[0]?.tokens ?? null) !== null)
    return [{ role: 'assistant', content: segments.map((s) => s.text).join('') }];
  const messages: WireMessage[] = [];
  let prefill = '';
  for (const { kind, text, messages: own } of segments) {
    if (kind === 'prefill') prefill = text;
    else if (kind === 'model') {
      messages.push(own === undefined ? { role: 'assistant', content: prefill + text } : wireMessage(own[0]!));
      prefill = '';
    } else messages.push(...(own === undefined ? [{ role: 'user', content: text }] : own.map(wireMessage)));
  }
  return messages;
}

interface Completed extends Pick<Rollout, 'segments' | 'turnFormat'> {
  readonly branches: readonly Pick<Branch, 'tokens'>[];
}

export function wireMessage({ role, content, toolCalls, toolCallId }: Message): WireMessage {
  return {
    role,
    content: contentText(content),
    ...(typeof content === 'string' ? {} : { parts: content.map(wirePart) }),
    ...(toolCalls === undefined ? {} : { tool_calls: toolCalls.map(wireCall) }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  };
}

function wireCall({ id, name, arguments: text, malformed }: ToolCall): NonNullable<WireMessage['tool_calls']>[number] {
  return { id, name, arguments: text, ...(malformed === undefined ? {} : { malformed }) };
}

/** The message of a recorded one. */
export function messageOf({ role, content, parts, tool_calls: toolCalls, tool_call_id: toolCallId }: WireMessage): Message {
  return {
    role: role as Message['role'],
    content: parts === undefined ? content : parts.map(partOf),
    ...(toolCalls === undefined ? {} : { toolCalls }),
    ...(toolCallId === undefined ? {} : { toolCallId }),
  };
}

function partOf(part: NonNullable<WireMessage['parts']>[number]): ContentPart {
  if (part.type === 'text') return part;
  const { type, media_type: mediaType, ...image } = part;
  return { type, image: { ...image, mediaType } };
}

/** An image by its digest: its bytes are not in the results. */
function wirePart(part: ContentPart): NonNullable<WireMessage['parts']>[number] {
  if (part.type === 'text') return part;
  const { sha256, mediaType, width, height } = part.image;
  return { type: 'image', sha256, media_type: mediaType, width, height };
}
