/** Messages, tools and tool calls in the format of chat APIs. */
import type { ChatCompletionCreateParamsNonStreaming, ChatCompletionContentPart } from 'openai/resources/chat/completions';
import { ConfigError } from '../core/errors.ts';
import { contentImages, contentText, type ImageStore, type Message, type MessageContent, type ToolCall } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { fieldsOf } from '../schemas/is-object.ts';

type WireMessage = ChatCompletionCreateParamsNonStreaming['messages'][number];

/** Sends the images of user messages as data URLs. Throws ConfigError if any other message contains an image, or if there is no image store. */
export async function wireMessages(messages: readonly Message[], images: ImageStore | null): Promise<WireMessage[]> {
  return Promise.all(messages.map((message) => wireMessage(message, images)));
}

async function wireMessage({ role, content, toolCalls = [], toolCallId }: Message, images: ImageStore | null): Promise<WireMessage> {
  if (role === 'user') return { role, content: await wireContent(content, images) };
  if (contentImages(content).length > 0)
    throw new ConfigError(
      `A ${role} message contains an image, but chat APIs take images in user messages only. Put it into a user message after it.`,
    );
  const text = contentText(content);
  if (role === 'tool') return { role, content: text, tool_call_id: toolCallId ?? '' };
  if (role === 'system' || toolCalls.length === 0) return { role, content: text };
  return { role, content: text, tool_calls: toolCalls.map(wireCall) };
}

/** A call that could not be parsed has no name, and its arguments are not JSON. APIs reject both, so it gets a name and JSON arguments. */
function wireCall({ id, name, arguments: args }: ToolCall) {
  const called = name === '' ? { name: 'malformed_call', arguments: JSON.stringify({ text: args }) } : { name, arguments: args };
  return { id, type: 'function' as const, function: called };
}

async function wireContent(content: MessageContent, images: ImageStore | null): Promise<string | ChatCompletionContentPart[]> {
  if (typeof content === 'string') return content;
  return Promise.all(
    content.map(async (part): Promise<ChatCompletionContentPart> => {
      if (part.type === 'text') return part;
      if (images === null)
        throw new ConfigError('A message contains an image, but the chat client has no image store. Pass one with the option images.');
      const bytes = await images.get(part.image);
      return { type: 'image_url', image_url: { url: `data:${part.image.mediaType};base64,${Buffer.from(bytes).toString('base64')}` } };
    }),
  );
}

export function wireTools(tools: readonly ToolSpec[]): NonNullable<ChatCompletionCreateParamsNonStreaming['tools']> {
  return tools.map(({ name, description, parameters }) => ({ type: 'function', function: { name, description, parameters: { ...parameters } } }));
}

/** Reads `tool_calls` of a response; entries that are not function calls are left out. */
export function readToolCalls(value: unknown): readonly ToolCall[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((call: unknown, i): ToolCall[] => {
    const { id, function: fn } = fieldsOf(call);
    const { name, arguments: args } = fieldsOf(fn);
    if (typeof name !== 'string') return [];
    return [
      { id: typeof id === 'string' && id !== '' ? id : `call${i}`, name, arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}) },
    ];
  });
}
