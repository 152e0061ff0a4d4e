/**
 * Chat completions as a stream of server-sent events, for servers that answer in no other way and to outlive gateways that cut silent connections. The
 * stream is read whole and becomes one completion, which is then read like any other: nothing is shown while it is written.
 */
import type { ChatCompletionChunk } from 'openai/resources/chat/completions';
import { PolicyError } from '../core/errors.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';
import type { HttpResponse } from '../transport/http-endpoint.ts';
import { errorFields } from '../schemas/error-fields.ts';

/** A gateway that answers 504 before this time has another reason than silence. */
const SILENCE_MS = 30_000;

/** The reason for which a request that was none for a stream should be one: the server's own words, or a gateway that cuts silent connections. Null for none. */
export function streamReason({ status, body }: HttpResponse, { tookMs }: { readonly tookMs: number }): string | null {
  if (status === 524 || (status === 504 && tookMs >= SILENCE_MS)) return `a gateway cut the silent connection (${status})`;
  if (status !== 400 && status !== 422) return null;
  const { message } = errorFields(body);
  return NEEDS_STREAM.test(message) && !REFUSES_STREAM.test(message) ? 'the server answers only streams' : null;
}

/**
 * DashScope: "This model only support stream mode, please enable the stream parameter", "parameter.enable_thinking must be set to false for non-streaming
 * calls"; others: "stream must be set to true", "Non-streaming requests are not supported".
 */
const NEEDS_STREAM =
  /only supports? (the )?stream|streaming (mode )?(is required|only)|\bstream\b.{0,20}(must|has to|should|needs to) be (set to )?true|requires? (`?stream`?|streaming)|non-?stream\w*\b.{0,40}not (supported|allowed|available)|not support(ed)? non-?stream|for non-?streaming/i;
const REFUSES_STREAM = /(does not|doesn't|not) support stream|stream(ing)? (is )?not supported/i;

/** True for a refusal of the option that makes a stream report its usage. */
export function rejectsUsage({ status, body }: HttpResponse): boolean {
  if (status !== 400 && status !== 422) return false;
  const { message, params } = errorFields(body);
  return /stream_options|include_usage/.test([...params, message].join(' '));
}

/**
 * One completion of a whole stream; the plain completion of a server that ignored the request for a stream. Throws a retryable PolicyError if the stream
 * was cut, or is none.
 */
export async function assembleChatStream(text: string, { where }: { readonly where: string }): Promise<unknown> {
  if (/^\s*\{/.test(text)) return JSON.parse(text);
  const [{ OpenAI }, { Stream }] = await Promise.all([import('openai'), import('openai/streaming')]);
  // Nothing is asked through it; without one the package would print what it cannot read.
  const quiet = new OpenAI({ apiKey: 'none', organization: null, project: null, webhookSecret: null, logLevel: 'off', baseURL: 'http://none' });
  const assembly = new Assembly();
  try {
    const chunks = Stream.fromSSEResponse<ChatCompletionChunk>(
      new Response(text.replace(WITHOUT_DATA, '')),
      new AbortController(),
      quiet,
      false,
      'events',
    );
    for await (const chunk of chunks) assembly.add(chunk);
  } catch {
    // The parser's error may quote the text, and after a cut it is about the last line.
    throw new PolicyError(`The stream of ${where} has a part that is not JSON`, { retryable: true });
  }
  // A server that reported an error may end there, and gateways leave out [DONE].
  if (!assembly.isEnded && !/^data: *\[DONE\]/m.test(text))
    throw new PolicyError(`The stream of ${where} was cut: it did not end with [DONE]`, { retryable: true });
  return assembly.completion;
}

/** Lines that carry nothing of a completion; the package takes an event of such a line alone for broken JSON. */
const WITHOUT_DATA = /^(?:(?:event|id|retry):.*|data: *)(?:\r\n|\n|\r)/gm;

type Fields = Record<string, unknown>;

class Assembly {
  readonly #fields: Fields = {};
  readonly #choices = new Map<number, Fields>();

  get hasError(): boolean {
    return isObject(this.#fields['error']) || typeof this.#fields['error'] === 'string';
  }

  /** It has an error, or the reason of each choice's end: nothing of its text is missing. */
  get isEnded(): boolean {
    return this.hasError || (this.#choices.size > 0 && [...this.#choices.values()].every(({ finish_reason: reason }) => isSet(reason)));
  }

  get completion(): unknown {
    const choices = [...this.#choices].toSorted(([a], [b]) => a - b).map(([, choice]) => choice);
    return { ...this.#fields, object: 'chat.completion', ...((choices.length > 0 || !this.hasError) && { choices }) };
  }

  add(chunk: unknown): void {
    const { choices, ...fields } = fieldsOf(chunk);
    // LMDeploy, and vLLM and SGLang in older versions, send the error itself.
    setKnown(this.#fields, fields['object'] === 'error' ? { error: fields, ...fields } : fields);
    if (!Array.isArray(choices)) return;
    for (const [place, piece] of (choices as unknown[]).entries()) {
      const { index = place, delta, message, ...others } = fieldsOf(piece);
      const choice = this.#choices.get(Number(index)) ?? { index, message: {} };
      this.#choices.set(Number(index), choice);
      setKnown(choice, others);
      // In the chunk that ends the text, null says that no stop string was left out.
      if (isSet(others['finish_reason'])) for (const name of STOPS) if (others[name] === null) choice[name] ??= null;
      if (isObject(delta)) mergeDelta(choice['message'] as Fields, delta);
      // Some servers repeat the whole message in their last chunk.
      else if (isObject(message)) choice['message'] = message;
    }
  }
}

const STOPS = ['stop_reason', 'matched_stop'];

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Later values replace earlier ones, except null, which says nothing. */
function setKnown(into: Fields, fields: Fields): void {
  for (const [name, value] of Object.entries(fields)) if (isSet(value)) into[name] = value;
}

/** Texts that every chunk repeats whole. Any other is continued by the next chunk. */
const WHOLE = new Set(['role', 'type', 'id', 'name', 'object', 'format']);

function mergeDelta(into: Fields, delta: Fields): void {
  for (const [name, value] of Object.entries(delta)) {
    if (value === null || value === undefined) continue;
    into[name] = merged(name, into[name], value);
  }
}

function merged(name: string, before: unknown, value: unknown): unknown {
  if (before === undefined) return Array.isArray(value) ? mergedItems([], value) : isObject(value) ? structuredClone(value) : value;
  if (typeof before === 'string' && typeof value === 'string') return WHOLE.has(name) ? value || before : before + value;
  if (Array.isArray(before) || Array.isArray(value)) return mergedItems(partsOf(before), partsOf(value));
  if (isObject(before) && isObject(value)) {
    mergeDelta(before, value);
    return before;
  }
  return value;
}

/** A text next to parts is a part. */
function partsOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : value === '' ? [] : [typeof value === 'string' ? { type: 'text', text: value } : value];
}

/** Items with an index, and tool calls, are continued; others follow those before them. */
function mergedItems(before: readonly unknown[], items: readonly unknown[]): unknown[] {
  const all = [...before];
  for (const item of items) {
    const { index, function: called } = fieldsOf(item);
    const known =
      index === undefined && called === undefined
        ? undefined
        : all.findLast((other) => fieldsOf(other)['index'] === index && !isOtherCall(fieldsOf(other), fieldsOf(item)));
    if (isObject(known) && isObject(item)) mergeDelta(known, item);
    else all.push(isObject(item) ? structuredClone(item) : item);
  }
  return all;
}

/** Some servers give every tool call the index 0, or none: a second id is a second call, and so is a name behind whole arguments. */
function isOtherCall(before: Fields, piece: Fields): boolean {
  const [known, id] = [before['id'], piece['id']].map((value) => (typeof value === 'string' ? value : ''));
  if (known !== '' && id !== '') return known !== id;
  const { name } = fieldsOf(piece['function']);
  const { arguments: args } = fieldsOf(before['function']);
  return typeof name === 'string' && name !== '' && (isObject(args) || (typeof args === 'string' && isObject(jsonOrNull(args))));
}
