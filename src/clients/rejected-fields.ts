/**
 * The request fields that a chat server has rejected: they are left out of all later requests to it. Models differ in the fields that they take: OpenAI's reasoning models reject
 * `temperature`, `top_p`, `stop` and `max_tokens`, Claude rejects `temperature` together with `top_p`, some servers an unknown field of a message.
 */
import type { HttpResponse } from '../transport/http-endpoint.ts';
import { errorFields } from '../schemas/error-fields.ts';
import type { ChatBody } from './openai-chat-request.ts';
import { LIMIT_TOO_LARGE } from './prompt-length-error.ts';

/** Fields without which a request keeps its meaning, by the names that servers give them. */
const DROPPABLE: Readonly<Record<string, RegExp>> = {
  temperature: /(?<![\w-])temperature(?![\w-])/i,
  top_p: /(?<![\w])top[_-]?p(?!\w)/i,
  seed: /(?<![\w])seed(?!\w)/i,
  // The client puts stop strings back.
  include_stop_str_in_output: /include_stop_str_in_output/,
  // A common word otherwise.
  stop: /['"`[]stop['"`\]]|\bstop[_ ]?sequences?\b|\b(parameters?|arguments?|fields?|property|key):? *\[?['"`]?stop\b|\bstop (parameter|argument|field|is not (a )?supported|is unsupported)|supplied: *stop\b|\bstop: extra|(not|n't) support stop\b|supported on this model: *stop\b/i,
};

/** Fields of every message, which none of the server's own has to replace. */
const OF_MESSAGES: ReadonlySet<string> = new Set(['role', 'content', 'tool_calls', 'tool_call_id', 'name']);
const OF_CALLS: ReadonlySet<string> = new Set(['id', 'type', 'function']);

export class RejectedFields {
  /** OpenAI's newer models reject the older name. */
  limitField: 'max_tokens' | 'max_completion_tokens' = 'max_tokens';
  readonly #names = new Set<string>();
  readonly #ofMessages = new Set<string>();

  /** The fields that are left out, for people. */
  get names(): readonly string[] {
    return [...this.#names, ...this.#ofMessages];
  }

  /**
   * Learns from a refusal of this body. Returns the names that it added, `max_tokens` for the name of the limit; empty if the refusal has another cause, or asks for
   * the range of a value that the user chose.
   */
  learn(response: HttpResponse, body: ChatBody): readonly string[] {
    if (response.status !== 400 && response.status !== 422) return [];
    const { message: whole, params, codes } = errorFields(response.body);
    const message = withoutQuotations(whole);
    const names = (pattern: RegExp, name: string) => params.includes(name) || pattern.test(message);
    // Another request may have learned it while this one was under way.
    if ('max_tokens' in body && (refusesMaxTokens(params, message) || (params.includes('max_tokens') && codes.includes('extra_forbidden')))) {
      this.limitField = 'max_completion_tokens';
      return ['max_tokens'];
    }
    if (isAboutRange(message) && body.temperature !== 0 && !/\b(unset|omit(ted)?|remove)\b/i.test(message)) return [];
    const added = Object.entries(DROPPABLE).flatMap(([name, pattern]) => (name in body && names(pattern, name) ? [name] : []));
    // One of two that exclude each other is enough.
    const dropped = added.length > 1 && /\bboth\b|only one|together|at the same time|either/i.test(message) ? ['top_p'] : added;
    for (const name of dropped) this.#names.add(name);
    if (dropped.length > 0) return dropped;
    if (/must be (passed|provided|included|sent|present)|\bmissing\b|\brequired\b/i.test(message)) return [];
    const returned = furtherFields(body).filter((name) => names(new RegExp(`(?<![\\w])${name}(?!\\w)`), name));
    for (const name of returned) this.#ofMessages.add(name);
    return returned;
  }

  /** The body without the fields. */
  without(body: ChatBody): ChatBody {
    if (this.#names.size === 0 && this.#ofMessages.size === 0) return body;
    const kept = Object.fromEntries(Object.entries(body).filter(([name]) => !this.#names.has(name))) as unknown as ChatBody;
    return this.#ofMessages.size === 0 ? kept : { ...kept, messages: kept.messages.map((message) => this.#plainMessage(message)) };
  }

  #plainMessage(message: ChatBody['messages'][number]): ChatBody['messages'][number] {
    const isKept = ([name]: [string, unknown]) => !this.#ofMessages.has(name);
    const plain = Object.fromEntries(Object.entries(message).filter(isKept)) as unknown as typeof message;
    if (plain.role !== 'assistant' || plain.tool_calls === undefined) return plain;
    return {
      ...plain,
      tool_calls: plain.tool_calls.map((call) => Object.fromEntries(Object.entries(call).filter(isKept)) as unknown as typeof call),
    };
  }
}

/** Without texts in quotation marks that are not names: they may be those of the prompt. */
function withoutQuotations(message: string): string {
  return message.replace(/(?<!\w)(["'`])((?:(?!\1).)*)\1/gs, (quoted, _mark, inner: string) => (/\s/.test(inner.trim()) ? '' : quoted));
}

/** The value is out of range: the field itself is accepted. */
function isAboutRange(message: string): boolean {
  return /\b(between|range|at (least|most)|less than|greater than|positive)\b|<=|>=|≤|≥|\bin [[(]/i.test(message);
}

/** True for a refusal that requires the limit under its newer name. */
function refusesMaxTokens(params: readonly string[], message: string): boolean {
  return (
    /max_tokens/.test([...params, message].join(' ')) &&
    /max_completion_tokens|not supported|unsupported/i.test(message) &&
    !LIMIT_TOO_LARGE.test(message)
  );
}

/** Names of the fields that messages and calls carry for the server. */
function furtherFields({ messages }: ChatBody): readonly string[] {
  const found = new Set<string>();
  for (const message of messages) {
    for (const name of Object.keys(message)) if (!OF_MESSAGES.has(name)) found.add(name);
    if (message.role !== 'assistant') continue;
    for (const call of message.tool_calls ?? []) for (const name of Object.keys(call)) if (!OF_CALLS.has(name)) found.add(name);
  }
  return [...found];
}
