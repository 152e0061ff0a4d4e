/**
 * Bounds what JSON from the wire becomes before JSON.parse makes it: 64 MiB of `[[],[],…]` would be 22 million lists in gigabytes of memory. One linear pass over the
 * bytes as they arrive, outside strings alone. It does not tell whether the text is JSON: JSON.parse does.
 */
import { MOST_LEVELS } from '../schemas/nesting.ts';
import { countText } from './count-text.ts';

export interface JsonLimits {
  /** Lists, objects and keys together: each takes tens of bytes. */
  readonly maxParts: number;
  /** Values that commas separate, such as the ids and log-probabilities of tokens. */
  readonly maxValues: number;
  /** Of one object. With a million keys, JSON.parse and each look at its values take seconds. @default 65,536 */
  readonly maxKeys?: number;
}

const MOST_KEYS = 2 ** 16;

/** Of a request: a conversation of 100,000 messages is 300,000 parts; 1,024 samples of 4,096 tokens with their log-probabilities are the values. */
export const REQUEST_LIMITS: JsonLimits = { maxParts: 2 ** 20, maxValues: 2 ** 23 };
/** Of a reply: each token with 20 alternatives is about 150 parts, for 32,768 tokens in all. */
const REPLY_LIMITS: JsonLimits = { maxParts: 5 * 2 ** 20, maxValues: 2 ** 24 };

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const NEWLINE = 0x0a;
/** `[` and `{`, and `]` and `}`, differ in this bit alone. */
const BRACE_BIT = 0x20;
const OPENING = 0x7b;
const CLOSING = 0x7d;
/** A search costs as much as a look at some tens of bytes, so it begins at every 32nd byte of a string alone. */
const STRIDE = 32;

export class JsonBounds {
  readonly #limits: JsonLimits;
  readonly #isLines: boolean;
  /** Keys so far of the object that is open on each level. */
  readonly #keys = new Int32Array(MOST_LEVELS + 1);
  #levels = 0;
  #parts = 0;
  #values = 0;
  #isString = false;
  #isEscape = false;

  /** @param isLines true for texts of which each line may hold JSON of its own, as the events of a stream do */
  constructor(limits: JsonLimits, isLines = false) {
    this.#limits = limits;
    this.#isLines = isLines;
  }

  /** The next bytes. Returns what is too much, such as `nests lists and objects more than 64 levels deep`; null if nothing is. */
  take(bytes: Uint8Array): string | null {
    const keys = this.#keys;
    const { maxParts, maxValues, maxKeys = MOST_KEYS } = this.#limits;
    // In local variables, which take a tenth of the time.
    let [levels, parts, values, isString, isEscape] = [this.#levels, this.#parts, this.#values, this.#isString, this.#isEscape];
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]!;
      if (byte === NEWLINE && this.#isLines) {
        levels = parts = values = keys[0] = 0;
        isString = isEscape = false;
      } else if (isString) {
        if (isEscape) isEscape = false;
        else if (byte === BACKSLASH) isEscape = true;
        else if (byte === QUOTE) isString = false;
        else if (at % STRIDE === 0 && !this.#isLines) {
          const quote = nextQuote(bytes, at);
          isEscape = isEscaped(bytes, quote, at);
          at = quote - 1;
        }
      } else if (byte === QUOTE) isString = true;
      else if (byte === COMMA) values++;
      else if (byte === COLON) {
        parts++;
        if (++keys[levels]! > maxKeys) return `has an object of more than ${countText(maxKeys)} keys`;
      } else if ((byte | BRACE_BIT) === OPENING) {
        parts++;
        if (++levels > MOST_LEVELS) return `nests lists and objects more than ${MOST_LEVELS} levels deep`;
        keys[levels] = 0;
      } else if ((byte | BRACE_BIT) === CLOSING && levels > 0) levels--;
    }
    [this.#levels, this.#parts, this.#values, this.#isString, this.#isEscape] = [levels, parts, values, isString, isEscape];
    if (parts > maxParts) return `has more than ${countText(maxParts)} lists, objects and keys`;
    return values > maxValues ? `has more than ${countText(maxValues)} values` : null;
  }
}

/** The length if there is none. */
function nextQuote(bytes: Uint8Array, from: number): number {
  const at = bytes.indexOf(QUOTE, from);
  return at === -1 ? bytes.length : at;
}

/** True if an odd number of backslashes from `from` on ends at an index. */
function isEscaped(bytes: Uint8Array, at: number, from: number): boolean {
  let first = at;
  while (first > from && bytes[first - 1] === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}

/** What is too much in the whole text, as `JsonBounds` tells it; null if nothing is. @param limits of a request by default */
export function jsonExcess(text: string, limits = REQUEST_LIMITS): string | null {
  return new JsonBounds(limits).take(new TextEncoder().encode(text));
}

/** As `JsonBounds`, for a reply of any kind: bounds a body that begins as JSON or as a stream of events, and lets others pass. */
export class ReplyBounds {
  #bounds: JsonBounds | null | undefined;

  /** The next bytes; as for `JsonBounds`. */
  take(bytes: Uint8Array): string | null {
    this.#bounds ??= this.#bounds === null ? null : boundsFor(bytes);
    return this.#bounds?.take(bytes) ?? null;
  }
}

/** Undefined while there is only white space. */
function boundsFor(bytes: Uint8Array): JsonBounds | null | undefined {
  const first = bytes.find((byte) => byte > 0x20);
  if (first === undefined) return undefined;
  if ((first | BRACE_BIT) === OPENING) return new JsonBounds(REPLY_LIMITS);
  // The fields of an event: data, event, id, retry, or a comment.
  return 'deir:'.includes(String.fromCharCode(first)) ? new JsonBounds(REPLY_LIMITS, true) : null;
}
