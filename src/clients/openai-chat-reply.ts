/** Reads the completions of chat APIs: the text, the thoughts, the tool calls, the end. Each shape is that of a server that is known to send it. */
import { PolicyError } from '../core/errors.ts';
import { isTokenCount } from '../core/sampling.ts';
import { spelledCalls } from '../core/spelled-calls.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { readToolCalls, returnedFields, saysSomething } from './openai-chat-messages.ts';
import { endedByItself, finishKind } from './finish-reasons.ts';
import type { TextSample } from './policy-client.ts';
import { type ReportedStop, restoreStop } from './restore-stop.ts';
import { quotation } from '../transport/quotes.ts';

/** The request that a response belongs to. */
export interface ChatContext {
  readonly stop: readonly string[];
  /** False if the request went without the stop strings: then none of them can have ended the text. @default true */
  readonly sentStop?: boolean;
  /** The text goes without the stop string that ends it. @default false */
  readonly dropsStop?: boolean;
  /** The requested limit on new tokens; null if it was left to the server. */
  readonly maxNewTokens: number | null;
  /** The server's URL, for messages. */
  readonly where: string;
  /** Removes the server's credentials from a string. */
  readonly hide: (text: string) => string;
}

/**
 * Reads a 200 response. Throws PolicyError: retryable if the response is incomplete or its generation did not end properly, final if the provider withheld the
 * text or ignored the token limit.
 */
export function readChat(answer: unknown, context: ChatContext): TextSample {
  const { stop, where, sentStop = true } = context;
  const quote = (value: unknown) => quotation(context.hide(JSON.stringify(value) ?? 'nothing').slice(0, 200));
  const { choices, error, usage } = fieldsOf(answer);
  if (saysSomething(error)) throw new PolicyError(`${where} reported the error ${quote(error)}`, { retryable: true });
  const listed: readonly unknown[] = Array.isArray(choices) ? choices : [];
  const choice = listed.length === 0 ? undefined : fieldsOf(listed.find((each) => fieldsOf(each)['index'] === 0) ?? listed[0]);
  if (choice === undefined || (choice['message'] === undefined && choice['finish_reason'] === undefined))
    throw emptyResponse(where, `no choice: ${quote(answer)}`);
  const { message, finish_reason: reason } = choice;
  const kind = finishKind(reason);
  if (kind === 'filtered') throw new PolicyError(`The content filter of ${where} stopped the answer: finish_reason is ${quote(reason)}`);
  // OpenRouter reports a provider that failed half-way in the choice, whatever the reason.
  if (kind === 'unfinished' || saysSomething(choice['error'])) throw unfinished(where, reason, quote(choice['error'] ?? reason));
  const { text: content, thoughts, refusal } = readContent(message);
  const toolCalls = readToolCalls(message);
  const { tool_calls: sentCalls } = fieldsOf(message);
  if (toolCalls.length === 0 && saysSomething(sentCalls))
    throw new PolicyError(`${where} sent a tool call without a name: ${quote(sentCalls)}`, { retryable: true });
  const more = {
    usage: readUsage(usage),
    ...countOfThoughts(usage),
    ...(thoughts === '' ? {} : { reasoning: thoughts }),
    ...returnedFields(message),
  };
  if (toolCalls.length > 0) {
    const own = content ?? '';
    return { text: spelledCalls(own, toolCalls), content: own, toolCalls, finish: kind, stopReason: null, ...more };
  }
  const isCut = kind === 'length';
  const { named = sentStop ? undefined : null } = reportedStop(choice, stop);
  const reported = { named, isCut };
  // A reasoning model that spends all its tokens on reasoning returns no content: a generation cut off before its text.
  if (content === null && isCut) return { text: '', finish: kind, stopReason: null, ...more };
  const end = endOfThoughts(thoughts, reported, stop);
  if ((content ?? '') === '' && kind === 'stop' && end !== null) throw stoppedInThoughts(where, end);
  // A stream begins with an empty text.
  if ((content ?? '') === '' && refusal !== '') throw new PolicyError(`${where} refused to answer: ${quote(refusal)}`);
  if (content === null) {
    throw emptyResponse(where, `the content ${quote(fieldsOf(message)['content'])}${thoughts === '' ? '' : ', after thoughts'}`);
  }
  assertWithinLimit(usage, thoughts !== '', context);
  const { text, stopReason, isGuess, wasIgnored } = restoreStop(content, reported, stop);
  const finish = typeof stopReason === 'string' ? 'stop' : kind;
  const ignored = wasIgnored ? { stopWasIgnored: true } : {};
  // Whether there was a stop string makes no difference to a text without it.
  if (context.dropsStop === true) return { text: withoutEnd(text, stopReason), finish, stopReason: isGuess ? null : stopReason, ...more, ...ignored };
  return {
    text,
    finish,
    stopReason,
    ...more,
    ...ignored,
    ...(isGuess ? { stopIsGuess: true } : {}),
  };
}

function withoutEnd(text: string, end: string | number | null): string {
  return typeof end === 'string' && text.endsWith(end) ? text.slice(0, -end.length) : text;
}

/** Fields of a message that hold thoughts as text, by provider: DeepSeek, Kimi, GLM, SGLang; vLLM, OpenRouter, Groq, Together, Ollama; others. */
const THOUGHT_FIELDS = ['reasoning_content', 'reasoning', 'thinking', 'reasoning_text', 'thought'] as const;

interface Content {
  /** Null if the server sent none. */
  readonly text: string | null;
  readonly thoughts: string;
  readonly refusal: string;
}

function readContent(message: unknown): Content {
  const fields = fieldsOf(message);
  const { content, reasoning_details: details, thinking_blocks: blocks } = fields;
  // Magistral, Claude, Gemini and Responses-like gateways send content as a list.
  const parts = isObject(content) ? [content] : listOf(content);
  const thought = parts.filter(({ type }) => /think|thought|reason|summary/.test(String(type)));
  const spoken = parts.filter((part) => !thought.includes(part)).flatMap((part) => partText(part) ?? []);
  const text = typeof content === 'string' ? content : spoken.length === 0 ? null : spoken.join('');
  const direct = THOUGHT_FIELDS.map((name) => thoughtText(fields[name])).find((value) => value !== '');
  const thoughts = direct ?? thoughtText([thought, details, blocks]);
  const refusal = [fields, ...parts].map((part) => part['refusal']).find((value) => typeof value === 'string');
  return { text: text === null ? null : text.toWellFormed(), thoughts: thoughts.toWellFormed(), refusal: refusal ?? '' };
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map((part: unknown) => (typeof part === 'string' ? { text: part } : fieldsOf(part))) : [];
}

/** The text of a part, of whatever type; null for one without, such as an image. */
function partText({ text }: Readonly<Record<string, unknown>>): string | null {
  const written = typeof text === 'string' ? text : fieldsOf(text)['value'];
  return typeof written === 'string' ? written : null;
}

/** Reads thoughts: a text, an object that holds one, or a list of either. */
function thoughtText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(thoughtText).join('');
  if (!isObject(value)) return '';
  return thoughtText(value['thinking'] ?? value['reasoning'] ?? value['text'] ?? value['summary'] ?? value['content']);
}

/** OpenRouter has the provider's own reason as well. */
const ENDS = ['finish_reason', 'native_finish_reason'];

/**
 * What the server says of the end of its text: vLLM in `stop_reason` and SGLang in `matched_stop` name the stop string, or the token that ended the turn, or say
 * null for the model's own end; gateways of Anthropic's API have `stop_sequence`, TGI and llama.cpp `stopping_word`.
 */
function reportedStop(choice: Readonly<Record<string, unknown>>, stop: readonly string[]): Pick<ReportedStop, 'named'> {
  const named = ['stop_reason', 'matched_stop', 'stop_sequence', 'stopping_word'].map((field) => choice[field]);
  const string = named.find((value) => typeof value === 'string' && stop.includes(value));
  if (string !== undefined) return { named: string as string };
  const token = named.find((value) => typeof value === 'number');
  if (token !== undefined) return { named: token };
  const saysNone =
    named.includes('') || choice['stop_reason'] === null || choice['matched_stop'] === null || ENDS.some((field) => endedByItself(choice[field]));
  return { named: saysNone || named.some((value) => endedByItself(value)) ? null : undefined };
}

/** Providers count a few tokens of their own (end of turn, the opening of a message). */
const EXTRA_TOKENS = 16;

function countOfThoughts(usage: unknown): Pick<TextSample, 'reasoningTokens'> {
  const fields = fieldsOf(usage);
  const tokens = fieldsOf(fields['completion_tokens_details'] ?? fields['output_tokens_details'])['reasoning_tokens'];
  return isTokenCount(tokens) ? { reasoningTokens: tokens } : {};
}

/** Throws PolicyError if the server counts clearly more tokens than requested. Reasoning tokens do not count: some providers limit only the text. */
function assertWithinLimit(usage: unknown, hasThoughts: boolean, { maxNewTokens, where }: ChatContext): void {
  if (maxNewTokens === null) return;
  const { reasoningTokens } = countOfThoughts(usage);
  if (hasThoughts && reasoningTokens === undefined) return;
  const tokens = count(fieldsOf(usage)['completion_tokens']) - (reasoningTokens ?? 0);
  if (tokens <= maxNewTokens + EXTRA_TOKENS) return;
  throw new PolicyError(`${where} generated ${tokens} tokens, but the limit was ${maxNewTokens}: the server ignores the limit`);
}

/**
 * Both counts are 0 if one of them is missing or no whole number: half of a usage has no cost (core/price.ts). Gateways of other APIs name them `input_tokens` and
 * `output_tokens`; DeepSeek and Kimi have a place of their own for cached tokens.
 */
function readUsage(usage: unknown): TextSample['usage'] {
  const fields = fieldsOf(usage);
  const { prompt_tokens: promptTokens = fields['input_tokens'], completion_tokens: completionTokens = fields['output_tokens'] } = fields;
  const details = fieldsOf(fields['prompt_tokens_details'] ?? fields['input_tokens_details']);
  const cached = [details['cached_tokens'], fields['prompt_cache_hit_tokens'], fields['cached_tokens']].find(isTokenCount);
  if (!isTokenCount(promptTokens) || !isTokenCount(completionTokens)) return { promptTokens: 0, completionTokens: 0, cachedTokens: null };
  return { promptTokens, completionTokens, cachedTokens: cached ?? null };
}

/** Without a reason the response may be incomplete: a connection that broke behind a gateway looks like this. */
function unfinished(where: string, reason: unknown, shown: string): PolicyError {
  if (typeof reason === 'string' && reason !== '')
    return new PolicyError(
      `${where} did not finish the answer: finish_reason is ${JSON.stringify(reason)}${shown === JSON.stringify(reason) ? '' : ` (${shown})`}`,
      {
        retryable: true,
      },
    );
  return new PolicyError(`${where} did not report why the generation ended: finish_reason is ${shown}`, { retryable: true });
}

/** The stop string that ended thoughts without a text: the one that the server names, or one whose tag they leave open; null for none. */
function endOfThoughts(thoughts: string, reported: ReportedStop, stop: readonly string[]): string | null {
  if (thoughts === '') return null;
  if (typeof reported.named === 'string') return reported.named;
  const { stopReason } = restoreStop(thoughts, reported, stop);
  return typeof stopReason === 'string' ? stopReason : null;
}

function stoppedInThoughts(where: string, named: string): PolicyError {
  return new PolicyError(
    `${where} stopped inside the model's thoughts, at the stop string ${JSON.stringify(named)}, so that there is no answer. Start vLLM without --reasoning-parser, ` +
      `play by token ids (-p vllm), or leave the stop strings out: -S '{"stop": null}'`,
  );
}

function emptyResponse(where: string, got: string): PolicyError {
  return new PolicyError(`${where} returned an empty response (${got})`, { retryable: true });
}

function count(value: unknown): number {
  return isTokenCount(value) ? value : 0;
}
