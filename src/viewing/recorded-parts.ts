/** The messages and parts of a recorded rollout, as the page shows them. Lines are read without a check of their schema: a damaged one is shown as far as it goes. */
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { Asked, Content, Message, Part } from './view-wire.ts';

type Fields = Readonly<Record<string, unknown>>;

export function messagesOf(value: unknown): Message[] {
  return listOf(value).map((message) => ({ role: textOf(message['role']), content: contentOf(message), tool_calls: callsOf(message['tool_calls']) }));
}

/** What came after the prompt: the segments, or the messages of a chat that has none. Pictures stand in the messages alone, so these are taken where there are some. */
export function partsOf({ segments, completion }: Fields): Part[] {
  const messages = messagesOf(completion);
  const texts = listOf(segments);
  const speaks = messages.some(({ content, tool_calls: calls }) => calls.length > 0 || content.some(({ type }) => type === 'image'));
  if (texts.length > 0 && !speaks)
    return texts.map(({ kind, text }) => ({ kind: textOf(kind), content: [{ type: 'text', text: textOf(text) }], tool_calls: [] }));
  return messages.map(({ role, content, tool_calls }) => ({
    kind: role === 'assistant' ? 'model' : role === 'user' ? 'observation' : role,
    content,
    tool_calls,
  }));
}

export function askedOf(value: unknown): Asked[] {
  return listOf(value).map((call) => {
    const usage = fieldsOf(call['usage']);
    return {
      role: textOf(call['role']),
      model: textOf(call['model']),
      messages: messagesOf(call['messages']),
      text: textOf(call['text']),
      ms: numberOf(call['ms']) ?? 0,
      attempts: numberOf(call['attempts']) ?? 0,
      input_tokens: numberOf(usage['input_tokens']) ?? 0,
      output_tokens: numberOf(usage['output_tokens']) ?? 0,
    };
  });
}

/** Parts stand beside the text (results) or in its place (calls of models). */
function contentOf({ content, parts }: Fields): Content[] {
  const list = Array.isArray(parts) ? parts : Array.isArray(content) ? content : null;
  if (list === null) return [{ type: 'text', text: textOf(content) }];
  return listOf(list).flatMap((part): Content[] => {
    if (part['type'] === 'text') return [{ type: 'text', text: textOf(part['text']) }];
    const image = isObject(part['image']) ? part['image'] : part;
    return [{ type: 'image', sha256: textOf(image['sha256']), width: numberOf(image['width']) ?? 0, height: numberOf(image['height']) ?? 0 }];
  });
}

function callsOf(value: unknown): Message['tool_calls'] {
  return listOf(value).map((call) => ({ id: textOf(call['id']), name: textOf(call['name']), arguments: textOf(call['arguments']) }));
}

export function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value);
}

export function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}
