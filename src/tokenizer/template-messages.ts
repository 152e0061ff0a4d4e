/** Messages and tools in the format that chat templates receive, in vLLM and here. */
import { ConfigError } from '../core/errors.ts';
import { contentImages, contentText, type Message } from '../core/message.ts';
import type { ToolSpec } from '../core/tool-calls.ts';
import { fieldsOf } from '../schemas/is-object.ts';

type Json = Readonly<Record<string, unknown>>;

export interface TemplateMessage {
  readonly role: string;
  readonly content: string;
  readonly tool_calls?: readonly TemplateToolCall[];
  readonly tool_call_id?: string;
}

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

/** Throws ConfigError for images. */
export function templateMessage({ role, content, toolCalls = [], toolCallId }: Message): TemplateMessage {
  if (contentImages(content).length > 0) throw new ConfigError('A message contains an image, but this policy reads text only. Leave the image out.');
  const calls = toolCalls.map(({ id, name, arguments: args }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: argumentsOf(args) },
  }));
  return {
    role,
    content: contentText(content).toWellFormed(),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  };
}

export function templateTool({ name, description, parameters }: ToolSpec): TemplateTool {
  return { type: 'function', function: { name, description, parameters } };
}

/**
 * The parts of a message that can affect what a template writes after later messages: its role, and how its content begins and ends. Tool calls are left
 * out, because the policy's text of them is in the content.
 */
export function outlinedMessage({ role, content, toolCallId }: Message): TemplateMessage {
  const kept = KEPT[role];
  const text = contentText(content);
  const short = text.length <= 2 * kept ? text : text.slice(0, kept) + text.slice(-kept);
  return { role, content: short.toWellFormed(), ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }) };
}

/** Applies `map` to every string from outside, names and keys of arguments and schemas included. */
export function mapMessageTexts(message: TemplateMessage, map: (text: string) => string): TemplateMessage {
  const { role, content, tool_calls: calls, tool_call_id: callId } = message;
  return {
    role,
    content: map(content),
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
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    return {};
  }
}
