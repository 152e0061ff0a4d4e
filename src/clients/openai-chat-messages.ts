/** Messages, tools and tool calls in the format of chat APIs. */
import type { ChatCompletionCreateParamsNonStreaming, ChatCompletionContentPart } from 'openai/resources/chat/completions';
import { ConfigError } from '../core/errors.ts';
import { contentImages, contentText, type ImageStore, type Message, type MessageContent, type ToolCall } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

type WireMessage = ChatCompletionCreateParamsNonStreaming['messages'][number];

/** Sends the images of user messages as data URLs. Throws ConfigError if any other message contains an image, or if there is no image store. */
export async function wireMessages(messages: readonly Message[], images: ImageStore | null): Promise<WireMessage[]> {
  return Promise.all(messages.map((message) => wireMessage(message, images)));
}

/** Stands for an assistant turn without text: Anthropic, Bedrock and Mistral reject an empty one. */
export const NO_TEXT = '(no text)';

async function wireMessage({ role, content, toolCalls = [], toolCallId, serverFields }: Message, images: ImageStore | null): Promise<WireMessage> {
  if (role === 'user') return { role, content: await wireContent(content, images) };
  if (contentImages(content).length > 0)
    throw new ConfigError(
      `A ${role} message contains an image, but chat APIs take images in user messages only. Put it into a user message after it.`,
    );
  const text = contentText(content);
  if (role === 'tool') return { role, content: text, tool_call_id: toolCallId ?? '' };
  if (role === 'system') return { role, content: text };
  const isEmpty = text.trim() === '';
  if (toolCalls.length === 0) return { role, content: isEmpty ? NO_TEXT : text, ...serverFields };
  return { role, content: isEmpty ? null : text, ...serverFields, tool_calls: toolCalls.map(wireCall) };
}

/** A call that could not be parsed has no name, and its arguments may be no JSON, like those that a limit cut off. APIs reject both, so it gets a name and JSON arguments. */
function wireCall({ id, name, arguments: args, serverFields = {} }: ToolCall) {
  const isJson = args.trim() === '' || jsonOrNull(args) !== null || args.trim() === 'null';
  const called = { name: name === '' ? 'malformed_call' : name, arguments: name !== '' && isJson ? args : JSON.stringify({ text: args }) };
  return { ...serverFields, id, type: 'function' as const, function: { ...fieldsOf(serverFields['function']), ...called } };
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

/** Reads the calls of a message; entries that are not function calls are left out. Further fields of a call, such as signatures of its thoughts, are kept. */
export function readToolCalls(message: unknown): readonly ToolCall[] {
  const { tool_calls: calls, function_call: single } = fieldsOf(message);
  // OpenAI's first form of a call.
  const listed = Array.isArray(calls) && calls.length > 0 ? calls : isObject(calls) ? [calls] : isObject(single) ? [{ function: single }] : [];
  return listed.flatMap((call: unknown, i): ToolCall[] => {
    const { id, type: _, index: __, function: fn, ...others } = fieldsOf(call);
    // Some gateways leave out the level of the function, as Anthropic's API does.
    const { name, arguments: args, parameters, input, ...rest } = isObject(fn) ? fn : others;
    if (typeof name !== 'string') return [];
    const [further, ofFunction] = isObject(fn) ? [filled(others), filled(rest)] : [filled(rest), {}];
    const serverFields = { ...further, ...(Object.keys(ofFunction).length === 0 ? {} : { function: ofFunction }) };
    const given = args ?? parameters ?? input ?? {};
    const written = typeof given === 'string' ? given : JSON.stringify(given);
    return [
      {
        id: typeof id === 'string' && id !== '' ? id : `call${i}`,
        // Servers of gpt-oss leave its namespace in the name.
        name: name.trim().replace(/^functions\./, ''),
        arguments: written.toWellFormed(),
        ...(Object.keys(serverFields).length === 0 ? {} : { serverFields }),
      },
    ];
  });
}

/** Fields of an answer that no request repeats, and those that are read by name. */
const NOT_RETURNED: ReadonlySet<string> = new Set(
  'role content tool_calls function_call refusal annotations citations audio parsed index name images logprobs'.split(' '),
);

/**
 * Fields of an assistant message that the server gets back unchanged, because many demand it: thoughts (DeepSeek, Kimi, GLM, MiniMax, vLLM), their signatures (Gemini,
 * OpenRouter, Claude behind LiteLLM), content in parts (Magistral). Empty if there are none.
 */
export function returnedFields(message: unknown): Pick<Message, 'serverFields'> {
  const fields = fieldsOf(message);
  const { content } = fields;
  const unknown = filled(Object.fromEntries(Object.entries(fields).filter(([name]) => !NOT_RETURNED.has(name))));
  const hasThoughts =
    Array.isArray(content) && content.some((part) => !['text', 'output_text', undefined].includes(fieldsOf(part)['type'] as string));
  const serverFields = { ...unknown, ...(hasThoughts ? { content } : {}) };
  return Object.keys(serverFields).length === 0 ? {} : { serverFields };
}

/** Without values that say nothing. */
function filled(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => saysSomething(value)));
}

/** False for null, and for an empty text, list or object. */
export function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}
