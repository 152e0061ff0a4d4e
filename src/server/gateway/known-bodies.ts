/**
 * The bodies of requests that a session has read. An agent sends its whole conversation with every request: of a body that begins as an earlier one did, only the rest is parsed, and the
 * items of its list that were there before are the same objects as before, so that nobody need read them again.
 */
import { LRUCache } from 'lru-cache';
import { JsonBounds, REQUEST_LIMITS } from '../../core/json-bounds.ts';
import { readExactJson } from '../../core/read-json.ts';
import { isObject } from '../../schemas/is-object.ts';
import { endOfValue, FieldFinder, skipSpace } from '../../viewing/top-level-fields.ts';

/** The lists of the dialects that hold a conversation. */
const LISTS = ['messages', 'input'];
/** Conversations of a session that are known, such as those of sub-agents. */
const MOST_CONVERSATIONS = 4;
/** Bytes that the bodies of all sessions take, with what they became, at most: about a hundred conversations of 80,000 tokens. */
const MOST_BYTES = 2 ** 27;
/** Most bytes of a list, an object, a key or a value, apart from those of its text. */
const PART_BYTES = 64;
/** Stands for the items that are known. */
const KNOWN = `known ${crypto.randomUUID()}`;

const UTF8 = new TextDecoder('utf-8', { fatal: true });
/** A byte order mark is one at the beginning alone. */
const UTF8_INSIDE = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const [COMMA, COLON, OPEN_LIST, CLOSE_LIST, OPEN] = [0x2c, 0x3a, 0x5b, 0x5d, 0x7b] as const;

interface KnownList {
  /** The key of the list. */
  readonly name: string;
  /** The index of its first byte. */
  readonly start: number;
  /** The index after each item. */
  readonly ends: readonly number[];
  /** Most parts up to there: characters that begin one, also inside texts. */
  readonly parts: readonly number[];
  readonly items: readonly unknown[];
}

interface KnownBody extends KnownList {
  readonly bytes: Buffer;
}

/** The items that a body has in common with an earlier one. */
interface Shared {
  readonly name: symbol;
  readonly known: KnownBody;
  readonly count: number;
}

/** The bodies of all sessions of a gateway; those that were not gone on with for longest give way. */
export function bodyCache(mostBytes: number = MOST_BYTES): LRUCache<symbol, KnownBody> {
  return new LRUCache({
    maxSize: mostBytes,
    sizeCalculation: ({ bytes, parts }) => 2 * bytes.buffer.byteLength + PART_BYTES * (1 + (parts.at(-1) ?? 0)),
  });
}

export class KnownBodies {
  readonly #cache: LRUCache<symbol, KnownBody>;
  /** The last one used first. */
  #names: readonly symbol[] = [];

  constructor(cache: LRUCache<symbol, KnownBody>) {
    this.#cache = cache;
  }

  /**
   * As `readExactJson` of the text, and as expensive as what is new in it. Nobody may change what it returns or the bytes. Throws RangeError for more lists, keys and values than a request
   * may have, such as `has more than 8,388,608 values`; SyntaxError; and TypeError for bytes that are not UTF-8.
   */
  read(given: Uint8Array): unknown {
    const bytes = Buffer.from(given.buffer, given.byteOffset, given.length);
    const shared = this.#longest(bytes);
    const excess = shared !== null && isWithinLimits(shared, bytes) ? null : new JsonBounds(REQUEST_LIMITS).take(bytes);
    if (excess !== null) throw new RangeError(excess);
    const { name, known, count } = shared ?? { name: null, known: listOf(bytes), count: 0 };
    const value = known === null ? null : valueAfter(known, count, bytes);
    if (value === null) return readExactJson(UTF8.decode(bytes));
    const { ends, parts } = known!;
    const list = { ...known!, ends: ends.slice(0, count), parts: parts.slice(0, count), items: value[known!.name] as readonly unknown[] };
    const body = bodyOf(bytes, list);
    // A body that left an earlier one is a further conversation.
    if (body !== null) this.#keep(body, count === ends.length ? name : null);
    return value;
  }

  forget(): void {
    for (const name of this.#names) this.#cache.delete(name);
    this.#names = [];
  }

  /** The body that shares most items; null if none shares any. */
  #longest(bytes: Buffer): Shared | null {
    let longest: Shared | null = null;
    for (const name of this.#names) {
      const known = this.#cache.get(name);
      if (known === undefined) continue;
      const count = itemsShared(known, bytes);
      if (count > (longest?.count ?? 0)) longest = { name, known, count };
      if (count > 0 && count === known.ends.length) break;
    }
    return longest;
  }

  #keep(body: KnownBody, before: symbol | null): void {
    const name = before ?? Symbol();
    this.#cache.set(name, body);
    const names = [name, ...this.#names.filter((other) => other !== name && this.#cache.has(other))];
    for (const old of names.slice(MOST_CONVERSATIONS)) this.#cache.delete(old);
    this.#names = names.slice(0, MOST_CONVERSATIONS);
  }
}

/** Number of items up to whose end both bodies are the same, byte for byte. */
function itemsShared({ bytes: known, ends }: KnownBody, bytes: Buffer): number {
  const isShared = (from: number, to: number) => to <= bytes.length && known.compare(bytes, from, to, from, to) === 0;
  if (ends.length > 0 && isShared(0, ends.at(-1)!)) return ends.length;
  let [least, most] = [0, Math.max(0, ends.length - 1)];
  while (least < most) {
    const middle = (least + most + 1) >> 1;
    if (isShared(ends[least - 1] ?? 0, ends[middle - 1]!)) least = middle;
    else most = middle - 1;
  }
  return least;
}

/** True if the known part and the new part are within the limits together. It may be false for a body that is: of the known part only an upper bound is kept, which counts commas in texts too. */
function isWithinLimits({ known: { start, ends, parts }, count }: Shared, bytes: Buffer): boolean {
  const before = parts[count - 1]!;
  const bounds = new JsonBounds({ maxParts: REQUEST_LIMITS.maxParts - before, maxValues: REQUEST_LIMITS.maxValues - before });
  return bounds.take(bytes.subarray(0, start)) === null && bounds.take(bytes.subarray(ends[count - 1])) === null;
}

/**
 * The value, with the items that are known in front. Null if the body must be read as a whole: it is not JSON, and the error of the whole names the right place; or the list that was found
 * is not the one that counts, because the key is there twice.
 */
function valueAfter({ start, ends, items, name }: KnownList, count: number, bytes: Buffer): Readonly<Record<string, unknown>> | null {
  const from = ends[count - 1] ?? start;
  const isSeparated = count > 0 || bytes[skipSpace(bytes, start, bytes.length)] === CLOSE_LIST;
  let value: unknown;
  try {
    value = readExactJson(`${UTF8.decode(bytes.subarray(0, start))}"${KNOWN}"${isSeparated ? '' : ','}${UTF8_INSIDE.decode(bytes.subarray(from))}`);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  const list = isObject(value) ? value[name] : null;
  if (!isObject(value) || !Array.isArray(list) || list[0] !== KNOWN) return null;
  return { ...value, [name]: [...items.slice(0, count), ...list.slice(1)] };
}

/** Null if the body is not an object with such a list. */
function listOf(bytes: Buffer): KnownList | null {
  const finder = new FieldFinder(LISTS);
  if (!finder.find(bytes, 0, bytes.length)) return null;
  const at = LISTS.findIndex((_, i) => finder.kind(i) === 'list');
  return at === -1 ? null : { name: LISTS[at]!, start: finder.starts[at]! + 1, ends: [], parts: [], items: [] };
}

/** The body with the ends of its further items; null if they are not where the list has them. */
function bodyOf(bytes: Buffer, known: KnownList): KnownBody | null {
  const [ends, parts] = [[...known.ends], [...known.parts]];
  let at = ends.at(-1) ?? known.start;
  while (ends.length < known.items.length) {
    const before = at;
    at = skipSpace(bytes, at, bytes.length);
    if (bytes[at] === COMMA) at = skipSpace(bytes, at + 1, bytes.length);
    at = endOfValue(bytes, at, bytes.length);
    if (at < 0) return null;
    ends.push(at);
    parts.push((parts.at(-1) ?? 0) + partsIn(bytes.subarray(before, at)));
  }
  return { ...known, bytes, ends, parts };
}

function partsIn(bytes: Uint8Array): number {
  let parts = 1;
  for (const byte of bytes) if (byte === COMMA || byte === COLON || byte === OPEN_LIST || byte === OPEN) parts++;
  return parts;
}
