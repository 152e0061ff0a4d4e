/** The request of `POST /v1/chat/completions`, as OpenAI documents it and its clients send it. */
import type { ContentPart, Message, Role, ToolCall } from '../../core/message.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import type { AgentRequest, AgentSettings, ToolChoice } from '../agent-request.ts';
import { FLAG, integerFrom, LIST, numberFrom, OBJECT, refuse, RequestKeys, STRING } from './request-keys.ts';

/** Keys that say who asks, what it may cost and where it is kept. */
const IGNORED = ['user', 'metadata', 'store', 'service_tier', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_retention'];
/** Keys that ask a model of OpenAI to answer in another way. */
const NAMED = ['verbosity', 'reasoning_effort'];

export function readChatRequest(body: unknown): AgentRequest {
  const keys = new RequestKeys(body);
  const messages = keys.required('messages', LIST).map((message, i) => chatMessage(message, `messages[${i}].`));
  if (messages.length === 0) refuse('messages', 'must have at least one message.');
  const tools = (keys.optional('tools', LIST) ?? []).map((tool, i) => chatTool(tool, `tools[${i}].`));
  const settings = chatSettings(keys);
  const model = keys.optional('model', STRING) ?? '';
  const isStreamed = keys.optional('stream', FLAG) ?? false;
  const countsUsage = fieldsOf(keys.raw('stream_options'))['include_usage'] === true;
  return { model, messages, tools, settings, isStreamed, countsUsage, unhonoured: keys.end({ ignored: IGNORED, named: NAMED }) };
}

/** vLLM's fields of a request, by their names there. */
const VLLM = ['top_k', 'min_p', 'repetition_penalty', 'presence_penalty', 'frequency_penalty', 'min_tokens', 'chat_template_kwargs'];

function chatSettings(keys: RequestKeys): AgentSettings {
  const stop = keys.raw('stop');
  const stops = typeof stop === 'string' ? [stop] : (stop ?? []);
  if (!Array.isArray(stops) || !stops.every((one) => typeof one === 'string' && one !== '')) refuse('stop', 'must be a string or a list of strings.');
  const maxTokens = keys.optional('max_completion_tokens', integerFrom(1)) ?? keys.optional('max_tokens', integerFrom(1));
  keys.raw('max_tokens');
  const logProbs = keys.optional('logprobs', FLAG) === true ? (keys.optional('top_logprobs', integerFrom(0, 20)) ?? 0) : undefined;
  const extra = Object.fromEntries(VLLM.flatMap((name) => (keys.raw(name) === undefined || keys.raw(name) === null ? [] : [[name, keys.raw(name)]])));
  const jsonSchema = responseFormat(keys.optional('response_format', OBJECT), 'response_format.');
  return defined({
    temperature: keys.optional('temperature', numberFrom(0, 100)),
    topP: keys.optional('top_p', numberFrom(0, 1)),
    maxTokens,
    stop: stops.length === 0 ? undefined : (stops as readonly string[]),
    seed: keys.optional('seed', integerFrom(-(2 ** 53))),
    n: keys.optional('n', integerFrom(1, 128)),
    logProbs,
    toolChoice: toolChoice(keys.raw('tool_choice'), 'function'),
    parallelToolCalls: keys.optional('parallel_tool_calls', FLAG),
    jsonSchema,
    extra: Object.keys(extra).length === 0 ? undefined : extra,
  });
}

/** Without the keys that have no value. */
export function defined(settings: { readonly [K in keyof AgentSettings]?: AgentSettings[K] | undefined }): AgentSettings {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

/** The schema of `{ type: "json_schema" }` in Chat and Responses, null for any JSON, undefined for text. */
export function responseFormat(format: Readonly<Record<string, unknown>> | undefined, place: string): AgentSettings['jsonSchema'] | undefined {
  if (format === undefined || format['type'] === 'text') return undefined;
  if (format['type'] === 'json_object') return null;
  if (format['type'] !== 'json_schema') return refuse(`${place}type`, 'must be "text", "json_object" or "json_schema".');
  const schema = fieldsOf(format['json_schema'])['schema'] ?? format['schema'];
  return isObject(schema) ? schema : refuse(`${place}json_schema.schema`, 'must be a JSON Schema.');
}

/** @param key of the object that holds the name in Chat; null where it stands next to the type */
export function toolChoice(choice: unknown, key: 'function' | null): ToolChoice | undefined {
  if (choice === undefined || choice === null) return undefined;
  if (choice === 'auto' || choice === 'none' || choice === 'required') return choice;
  const { name } = fieldsOf(key === null ? choice : fieldsOf(choice)[key]);
  return typeof name === 'string' ? { name } : refuse('tool_choice', 'must be "auto", "none", "required" or a function.');
}

const ROLES: Readonly<Record<string, Role>> = { system: 'system', developer: 'system', user: 'user', assistant: 'assistant', tool: 'tool' };

function chatMessage(given: unknown, place: string): Message {
  const keys = new RequestKeys(given, place);
  const name = keys.required('role', STRING);
  const role = Object.hasOwn(ROLES, name) ? ROLES[name]! : refuse(`${place}role`, 'must be system, developer, user, assistant or tool.');
  const content = chatContent(keys.raw('content'), `${place}content`);
  if (role === 'tool') return { role, content, toolCallId: keys.required('tool_call_id', STRING) };
  if (role !== 'assistant') return { role, content };
  const calls = (keys.optional('tool_calls', LIST) ?? []).map((call, i) => chatCall(call, `${place}tool_calls[${i}].`));
  const thoughts = ['reasoning_content', 'reasoning'].flatMap((field) => (typeof keys.raw(field) === 'string' ? [[field, keys.raw(field)]] : []));
  return {
    role,
    content,
    ...(calls.length === 0 ? {} : { toolCalls: calls }),
    ...(thoughts.length === 0 ? {} : { serverFields: Object.fromEntries(thoughts) }),
  };
}

function chatCall(given: unknown, place: string): ToolCall {
  const keys = new RequestKeys(given, place);
  const called = new RequestKeys(keys.raw('function'), `${place}function.`);
  const args = called.raw('arguments');
  return {
    id: keys.required('id', STRING),
    name: called.required('name', STRING),
    arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
  };
}

/** Text parts that a message may have, by dialect. */
const TEXT_PARTS: readonly unknown[] = ['text', 'input_text', 'output_text'];

/** The text of parts; one string for text alone. */
export function chatContent(content: unknown, place: string): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return refuse(place, 'must be a string or a list of parts.');
  const parts = content.map((part: unknown, i): ContentPart => {
    const { type, text, refusal } = fieldsOf(part);
    if (TEXT_PARTS.includes(type) && typeof text === 'string') return { type: 'text', text };
    if (type === 'refusal' && typeof refusal === 'string') return { type: 'text', text: refusal };
    return refuse(`${place}[${i}]`, 'must be a text part, because this policy reads text only.');
  });
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function chatTool(given: unknown, place: string): ToolSpec {
  const keys = new RequestKeys(given, place);
  if (keys.raw('type') !== 'function') refuse(`${place}type`, 'must be "function"; the policy has no tools of its own.');
  return toolSpec(new RequestKeys(keys.raw('function'), `${place}function.`));
}

const NO_PARAMETERS = { type: 'object', properties: {} };

export function toolSpec(keys: RequestKeys, parameters = 'parameters'): ToolSpec {
  return {
    name: keys.required('name', STRING),
    description: keys.optional('description', STRING) ?? '',
    parameters: keys.optional(parameters, OBJECT) ?? NO_PARAMETERS,
  };
}
