/** The request of `POST /v1/chat/completions`, as OpenAI documents it and its clients send it. */
import type { Message, Role, ToolCall } from '../../core/message.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import type { AgentRequest, AgentSettings } from '../agent-request.ts';
import { defined, FLAG, integerFrom, LIST, OBJECT, readOnce, refuse, RequestKeys, sampled, STRING, stringsOf } from './request-keys.ts';
import { asksForUsage, offer, OPENAI_IGNORED, responseFormat, textOf, toolChoice, toolSpec } from './request-parts.ts';

/** `prediction` is text that may be repeated, for the server's speed. */
const IGNORED = [...OPENAI_IGNORED, 'prediction'];
/** Keys that ask a model of OpenAI to answer in another way. */
const NAMED = ['verbosity', 'reasoning_effort'];

export function readChatRequest(body: unknown): AgentRequest {
  const keys = new RequestKeys(body);
  const messages = keys.required('messages', LIST).map((message, i) => chatMessage(message, `messages[${i}].`));
  if (messages.length === 0) refuse('messages', 'must have at least one message.');
  const unhonoured = new Set<string>();
  const offered = new Map<string, ToolSpec>();
  for (const [i, tool] of (keys.optional('tools', LIST) ?? []).entries())
    offer(offered, chatTool(tool, `tools[${i}].`, unhonoured), `tools[${i}].function`);
  const tools = [...offered.values()];
  const settings = chatSettings(keys, tools);
  const model = keys.optional('model', STRING) ?? '';
  const isStreamed = keys.optional('stream', FLAG) ?? false;
  const countsUsage = asksForUsage(keys);
  if (Object.keys(keys.optional('logit_bias', OBJECT) ?? {}).length > 0) refuse('logit_bias', 'cannot be honoured here. Leave it out.');
  const modalities = keys.optional('modalities', LIST) ?? [];
  if (modalities.some((one) => one !== 'text')) refuse('modalities', 'must be ["text"], because this policy writes text only.');
  return { model, messages, tools, settings, isStreamed, countsUsage, unhonoured: [...keys.end({ ignored: IGNORED, named: NAMED }), ...unhonoured] };
}

/** Fields of a request that are passed on under their names. */
const PASSED_ON = {
  top_k: 'top_k',
  min_p: 'min_p',
  repetition_penalty: 'repetition_penalty',
  presence_penalty: 'presence_penalty',
  frequency_penalty: 'frequency_penalty',
  min_tokens: 'min_tokens',
};

function chatSettings(keys: RequestKeys, tools: readonly ToolSpec[]): AgentSettings {
  const mostTokens = keys.optional('max_tokens', integerFrom(1));
  const variables = keys.optional('chat_template_kwargs', OBJECT);
  const extra = { ...keys.passedOn(PASSED_ON), ...(variables === undefined ? {} : { chat_template_kwargs: variables }) };
  return defined({
    temperature: keys.optional('temperature', sampled('temperature')),
    topP: keys.optional('top_p', sampled('top_p')),
    maxTokens: keys.optional('max_completion_tokens', integerFrom(1)) ?? mostTokens,
    stop: stringsOf(keys.raw('stop'), 'stop'),
    seed: keys.optional('seed', integerFrom(-(2 ** 53))),
    n: keys.optional('n', integerFrom(1, 128)),
    logProbs: logProbs(keys),
    toolChoice: toolChoice(keys.raw('tool_choice'), tools, 'function'),
    parallelToolCalls: keys.optional('parallel_tool_calls', FLAG),
    jsonSchema: responseFormat(keys.optional('response_format', OBJECT), 'response_format.'),
    extra: Object.keys(extra).length === 0 ? undefined : extra,
  });
}

function logProbs(keys: RequestKeys): number | undefined {
  const isAsked = keys.optional('logprobs', FLAG) === true;
  const most = keys.optional('top_logprobs', integerFrom(0, 20));
  if (most !== undefined && most > 0 && !isAsked) refuse('top_logprobs', 'needs logprobs: true.');
  return isAsked ? (most ?? 0) : undefined;
}

const ROLES: Readonly<Record<string, Role>> = { system: 'system', developer: 'system', user: 'user', assistant: 'assistant', tool: 'tool' };

/** Keys of a message that are not read are a client's own. */
const chatMessage = readOnce((given, place): Message => {
  const keys = new RequestKeys(given, place);
  const name = keys.required('role', STRING);
  const role = Object.hasOwn(ROLES, name) ? ROLES[name]! : refuse(`${place}role`, 'must be system, developer, user, assistant or tool.');
  const content = textOf(keys.raw('content'), `${place}content`, role === 'assistant' ? '' : undefined);
  if (role === 'tool') return { role, content, toolCallId: keys.required('tool_call_id', STRING) };
  if (role !== 'assistant') return { role, content };
  for (const lost of ['function_call', 'audio'])
    if ((keys.raw(lost) ?? null) !== null) refuse(`${place}${lost}`, 'cannot be honoured here; a call of a tool stands in tool_calls.');
  const calls = (keys.optional('tool_calls', LIST) ?? []).map((call, i) => chatCall(call, `${place}tool_calls[${i}].`));
  const thoughts = ['reasoning_content', 'reasoning'].flatMap((field) => (typeof keys.raw(field) === 'string' ? [[field, keys.raw(field)]] : []));
  return {
    role,
    content: content === '' ? (keys.optional('refusal', STRING) ?? '') : content,
    ...(calls.length === 0 ? {} : { toolCalls: calls }),
    ...(thoughts.length === 0 ? {} : { serverFields: Object.fromEntries(thoughts) }),
  };
});

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

function chatTool(given: unknown, place: string, unhonoured: Set<string>): ToolSpec {
  const keys = new RequestKeys(given, place);
  if (keys.raw('type') !== 'function') refuse(`${place}type`, 'must be "function"; the policy has no tools of its own.');
  const spec = toolSpec(new RequestKeys(keys.raw('function'), `${place}function.`), unhonoured);
  keys.end({ ignored: ['cache_control'] });
  return spec;
}
