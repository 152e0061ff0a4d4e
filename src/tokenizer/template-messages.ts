/** Messages and tools in the format that chat templates receive, in vLLM and here. */
import { argumentsOrNull } from '../schemas/arguments-or-null.ts';
import { contentText, type ImageRef, type Message, type MessageContent } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { fieldsOf } from '../schemas/is-object.ts';

type Json = Readonly<Record<string, unknown>>;

export interface TemplateMessage {
  readonly role: string;
  /** With images: a list of texts and images, without adjacent texts. */
  readonly content: TemplateContent;
  /** Thoughts that came back with a turn; the template decides whether the policy reads them again. */
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly TemplateToolCall[];
  readonly tool_call_id?: string;
}

/** A message without images. */
export interface PlainTemplateMessage extends TemplateMessage {
  readonly content: string;
}

type TemplateContent = string | readonly (string | ImageRef)[];

interface TemplateToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: Json };
}

export interface TemplateTool {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly description: string; readonly parameters: Json };
}

/** Characters kept at each end of an earlier content. Templates may inspect how a system prompt or a question begins and ends, but no more than this. */
const KEPT = { system: 512, user: 256, assistant: 32, tool: 32 } as const;

export function templateMessage({ role, content, toolCalls = [], toolCallId, serverFields = {} }: Message): TemplateMessage {
  const calls = toolCalls.map(({ id, name, arguments: args }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: argumentsOf(args) },
  }));
  return {
    role,
    content: templateContent(content),
    ...thoughtsIn(serverFields),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  };
}

/** As vLLM reads them, under either name. */
function thoughtsIn({
  reasoning,
  reasoning_content: thoughts = reasoning,
}: Readonly<Record<string, unknown>>): Pick<TemplateMessage, 'reasoning_content'> {
  return typeof thoughts === 'string' && thoughts !== '' ? { reasoning_content: thoughts.toWellFormed() } : {};
}

export function templateTool({ name, description, parameters }: ToolSpec): TemplateTool {
  return { type: 'function', function: { name, description, parameters } };
}

/**
 * The parts of a message that can affect what a template writes after later messages: its role, and how its content begins and ends. Tool calls are left
 * out, because the policy's text of them is in the content.
 */
export function outlinedMessage({ role, content, toolCallId }: Message): PlainTemplateMessage {
  const kept = KEPT[role];
  const text = contentText(content);
  const short = text.length <= 2 * kept ? text : text.slice(0, kept) + text.slice(-kept);
  return { role, content: short.toWellFormed(), ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }) };
}

/** Applies `map` to every string that comes from outside, including names and keys of arguments and schemas. */
export function mapMessageTexts(message: TemplateMessage, map: (text: string) => string): TemplateMessage {
  const { role, content, reasoning_content: thoughts, tool_calls: calls, tool_call_id: callId } = message;
  return {
    role,
    content: typeof content === 'string' ? map(content) : content.map((part) => (typeof part === 'string' ? map(part) : part)),
    ...(thoughts === undefined ? {} : { reasoning_content: map(thoughts) }),
    ...(calls === undefined ? {} : { tool_calls: calls.map((call) => mapCallTexts(call, map)) }),
    ...(callId === undefined ? {} : { tool_call_id: map(callId) }),
  };
}

export function mapToolTexts({ type, function: { name, description, parameters } }: TemplateTool, map: (text: string) => string): TemplateTool {
  return { type, function: { name: map(name), description: map(description), parameters: mapJson(parameters, map) as Json } };
}

function mapCallTexts(call: TemplateToolCall, map: (text: string) => string): TemplateToolCall {
  const { name, arguments: args } = call.function;
  return { id: map(call.id), type: call.type, function: { name: map(name), arguments: mapJson(args, map) as Json } };
}

function mapJson(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value);
  if (Array.isArray(value)) return value.map((inner) => mapJson(inner, map));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [map(key), mapJson(inner, map)]));
}

/** Templates require an object. Anything else becomes an empty one, as in vLLM, so that a bad call does not make the conversation unusable. */
function argumentsOf(text: string): Json {
  return fieldsOf(argumentsOrNull(text));
}

/** The images of the messages, in order. */
export function templateImages(messages: readonly TemplateMessage[]): readonly ImageRef[] {
  return messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content.filter((part) => typeof part !== 'string')));
}

/** The messages with every image spelled as the model's own template writes it. */
export function spelledMessages(messages: readonly TemplateMessage[], image: string): PlainTemplateMessage[] {
  return messages.map((message) => {
    const { content } = message;
    return { ...message, content: typeof content === 'string' ? content : content.map((part) => (typeof part === 'string' ? part : image)).join('') };
  });
}

/** Adjacent texts are joined, so that a control token that is spelled across two of them is found. */
function templateContent(content: MessageContent): TemplateContent {
  if (typeof content === 'string' || content.every(({ type }) => type === 'text')) return contentText(content).toWellFormed();
  const parts: (string | ImageRef)[] = [];
  for (const part of content) {
    const before = parts.at(-1);
    if (part.type === 'image') parts.push(part.image);
    else if (typeof before === 'string') parts.splice(-1, 1, before + part.text);
    else parts.push(part.text);
  }
  return parts.map((part) => (typeof part === 'string' ? part.toWellFormed() : part));
}
