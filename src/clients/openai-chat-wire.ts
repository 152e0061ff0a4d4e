/** Chat completions on the wire: request bodies, parsed responses, typed errors. */
import type { ChatCompletionCreateParamsNonStreaming } from 'openai/resources/chat/completions';
import { ConfigError, PolicyError } from '../core/errors.ts';
import type { ImageStore, Message } from '../core/message.ts';
import { isTokenCount } from '../core/sampling.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import type { HttpResponse } from '../transport/http-endpoint.ts';
import { spelledCalls } from '../core/spelled-calls.ts';
import { type ChatErrorFields, chatErrorFields } from './chat-error-fields.ts';
import { readToolCalls, wireMessages, wireTools } from './openai-chat-messages.ts';
import type { GenerateRequest, TextSample } from './policy-client.ts';
import { restoreStop } from './restore-stop.ts';

export type ChatBody = ChatCompletionCreateParamsNonStreaming;
export interface ChatSample extends TextSample {
  /** True if the server removed a stop string without reporting it; it was restored because its tag was still open. */
  readonly stopWasGuessed: boolean;
}

/** Fields that would change the format of the response. */
const OWNED_FIELDS = ['messages', 'model', 'n', 'stream', 'stream_options'];

/** The name of the token limit: OpenAI's newer models reject `max_tokens`. */
export type LimitField = 'max_tokens' | 'max_completion_tokens';

/**
 * The request's JSON: only what the user or the environment set. `sampling.extra` overrides the other fields; if it has `max_completion_tokens`,
 * `max_tokens` is not sent.
 */
export async function chatBody(
  model: string,
  { prompt, sampling, maxNewTokens, stop, tools = [], prefill }: GenerateRequest<readonly Message[]>,
  { limitField = 'max_tokens', images = null }: { readonly limitField?: LimitField; readonly images?: ImageStore | null } = {},
): Promise<ChatBody> {
  const { temperature, topP, extra = {}, leaveOut = [] } = sampling;
  const owned = OWNED_FIELDS.find((field) => field in extra);
  if (owned !== undefined) throw new ConfigError(`The sampling argument ${owned} is set by the client itself. Leave out ${OWNED_FIELDS.join(', ')}.`);
  const limit = maxNewTokens === null || 'max_completion_tokens' in extra ? {} : { [limitField]: maxNewTokens };
  const messages = await wireMessages(prefill === undefined ? prompt : [...prompt, { role: 'assistant', content: prefill }], images);
  const body: ChatBody = {
    model,
    messages,
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { top_p: topP }),
    ...limit,
    ...(stop.length > 0 ? { stop: [...stop] } : {}),
    ...(tools.length > 0 ? { tools: wireTools(tools) } : {}),
    // vLLM's fields for continuing the last message.
    ...(prefill === undefined ? {} : { add_generation_prompt: false, continue_final_message: true }),
    ...extra,
  };
  for (const name of leaveOut) delete (body as unknown as Record<string, unknown>)[name];
  return body;
}

/** The request that a response belongs to. */
export interface ChatContext {
  readonly stop: readonly string[];
  /** The requested limit on new tokens; null if it was left to the server. */
  readonly maxNewTokens: number | null;
  /** The server's URL, for messages. */
  readonly where: string;
  /** Removes the server's credentials from a string. */
  readonly hide: (text: string) => string;
}

/**
 * Reads a 200 response. Only `content` counts: a reasoning model's `reasoning_content` is neither scored nor sent back. Throws PolicyError:
 * retryable if the response is incomplete, final if the provider withheld the text or ignored the token limit.
 */
export function readChat(answer: unknown, context: ChatContext): ChatSample {
  const { stop, where } = context;
  const quote = (value: unknown) => context.hide(JSON.stringify(value) ?? 'nothing').slice(0, 200);
  const { choices, error, usage } = fieldsOf(answer);
  if (error !== undefined && error !== null) throw new PolicyError(`${where} reported the error ${quote(error)}`, { retryable: true });
  const choice = Array.isArray(choices) ? choices[0] : undefined;
  if (choice === undefined) throw emptyResponse(where, 'no choice');
  const { message, finish_reason: reason, stop_reason: stopReason } = fieldsOf(choice);
  const { content, refusal, tool_calls: calls } = fieldsOf(message);
  const toolCalls = readToolCalls(calls);
  if (reason === 'content_filter') throw new PolicyError(`The content filter of ${where} stopped the answer`);
  if (reason === 'error') throw emptyResponse(where, `the finish reason error: ${quote(fieldsOf(choice)['error'])}`);
  const finish = reason === 'length' ? 'length' : 'stop';
  const counts = readUsage(usage);
  if (toolCalls.length > 0) {
    const own = typeof content === 'string' ? content : '';
    return { text: spelledCalls(own, toolCalls), content: own, toolCalls, finish, stopReason: null, usage: counts, stopWasGuessed: false };
  }
  // A reasoning model that spends all its tokens on reasoning returns no content: a generation cut off before its text.
  if (content === null && finish === 'length') return { text: '', finish, stopReason: null, usage: counts, stopWasGuessed: false };
  if (typeof content !== 'string') {
    if (typeof refusal === 'string') throw new PolicyError(`${where} refused to answer: ${quote(refusal)}`);
    throw emptyResponse(where, `the content ${quote(content)}`);
  }
  // Without it, the response may be incomplete: a connection that broke behind a gateway looks like this.
  if (typeof reason !== 'string')
    throw new PolicyError(`${where} did not report why the generation ended: finish_reason is ${quote(reason)}`, { retryable: true });
  assertWithinLimit(usage, context);
  const named = typeof stopReason === 'string' || typeof stopReason === 'number' ? stopReason : null;
  return {
    finish,
    usage: counts,
    ...(finish === 'stop' ? restoreStop(content, named, stop) : { text: content, stopReason: named, stopWasGuessed: false }),
  };
}

/** Providers count a few tokens of their own (end of turn, the opening of a message). */
const EXTRA_TOKENS = 16;

/** Throws PolicyError if the server counts clearly more tokens than requested. Reasoning tokens do not count: some providers limit only the text. */
function assertWithinLimit(usage: unknown, { maxNewTokens, where }: ChatContext): void {
  if (maxNewTokens === null) return;
  const { completion_tokens: completionTokens, completion_tokens_details: details } = fieldsOf(usage);
  const tokens = count(completionTokens) - count(fieldsOf(details)['reasoning_tokens']);
  if (tokens <= maxNewTokens + EXTRA_TOKENS) return;
  throw new PolicyError(`${where} generated ${tokens} tokens, but the limit was ${maxNewTokens}: the server ignores the limit`);
}

/** Both counts are 0 if one of them is missing or no whole number: half of a usage has no cost (core/price.ts). */
function readUsage(usage: unknown): TextSample['usage'] {
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens, prompt_tokens_details: details } = fieldsOf(usage);
  const cached = fieldsOf(details)['cached_tokens'];
  if (!isTokenCount(promptTokens) || !isTokenCount(completionTokens)) return { promptTokens: 0, completionTokens: 0, cachedTokens: null };
  return { promptTokens, completionTokens, cachedTokens: isTokenCount(cached) ? cached : null };
}

const TOO_LONG =
  /context[ _](length|window)|maximum (context|prompt|input)|prompt is too long|too many (input )?tokens|reduce the length|max_tokens must be at least 1/i;

/** The prompt leaves no room for that many new tokens: a lower limit would fit. vLLM names both fields. */
export const LIMIT_TOO_LARGE = /max_(completion_)?tokens'?( or '?max_completion_tokens'?)? is too large/i;

/** The refusal says that the prompt does not fit the model's window. */
export function refusesLength({ status }: HttpResponse, { code, param, message }: ChatErrorFields): boolean {
  return (
    (status === 400 || status === 413 || status === 422) && (code === 'context_length_exceeded' || param === 'input_tokens' || TOO_LONG.test(message))
  );
}

/** True for a 400 that requires the limit under its newer name. */
export function refusesMaxTokens({ status, body }: HttpResponse): boolean {
  if (status !== 400) return false;
  const { message, param } = chatErrorFields(body);
  return /max_tokens/.test(param + message) && /max_completion_tokens|not supported|unsupported/i.test(message) && !LIMIT_TOO_LARGE.test(message);
}

function emptyResponse(where: string, got: string): PolicyError {
  return new PolicyError(`${where} returned an empty response (${got})`, { retryable: true });
}

function count(value: unknown): number {
  return isTokenCount(value) ? value : 0;
}
