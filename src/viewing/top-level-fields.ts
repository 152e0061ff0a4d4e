/**
 * Finds the fields of a JSON object in a buffer without parsing the rest. A line of results has thousands of characters of conversation and a hundred of figures:
 * reading only the figures of 100,000 rollouts takes a second.
 */
import { withoutNonFinite } from '../core/finite-json.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

const [QUOTE, BACKSLASH, COLON, COMMA, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST] = [0x22, 0x5c, 0x3a, 0x2c, 0x7b, 0x7d, 0x5b, 0x5d] as const;

type ValueKind = 'text' | 'number' | 'flag' | 'list' | 'object' | 'null';

const KINDS = new Map<number, ValueKind>([
  [QUOTE, 'text'],
  [OPEN, 'object'],
  [OPEN_LIST, 'list'],
  [0x74, 'flag'],
  [0x66, 'flag'],
  [0x6e, 'null'],
]);

/** Bytes of a string that are examined one by one before a native search begins, which costs a call. */
const NEAR = 48;

/**
 * Finds top-level fields by name. One finder serves all lines of a file, because they have the same keys.
 *
 * @example
 * const fields = new FieldFinder(['reward', 'num_turns']);
 * if (fields.find(buffer, start, end)) fields.number(0); // the reward
 */
export class FieldFinder {
  /** The place of each value: `[start, end)` in the buffer; start is -1 if the object lacks the field. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  readonly #names: readonly Buffer[];
  #buffer: Buffer = Buffer.alloc(0);

  constructor(names: readonly string[]) {
    this.#names = names.map((name) => Buffer.from(name));
    this.starts = new Int32Array(names.length);
    this.ends = new Int32Array(names.length);
  }

  /**
   * Finds the fields of the object in `[start, end)`. If a name occurs twice, the last value counts.
   * @param options.mayStopEarly ends when every field was found once. @default false
   * @returns false if that is not a complete JSON object; the inside of a value is not checked
   */
  find(buffer: Buffer, start: number, end: number, { mayStopEarly = false } = {}): boolean {
    this.#buffer = buffer;
    this.starts.fill(-1);
    let missing = mayStopEarly ? this.#names.length : Infinity;
    let at = skipSpace(buffer, start, end);
    if (buffer[at] !== OPEN) return false;
    at = skipSpace(buffer, at + 1, end);
    if (buffer[at] === CLOSE) return skipSpace(buffer, at + 1, end) === end;
    for (;;) {
      if (at >= end || buffer[at] !== QUOTE) return false;
      const keyEnd = endOfString(buffer, at, end);
      if (keyEnd < 0) return false;
      const field = this.#indexOf(at + 1, keyEnd - 1);
      at = skipSpace(buffer, keyEnd, end);
      if (buffer[at] !== COLON) return false;
      at = skipSpace(buffer, at + 1, end);
      const valueEnd = endOfValue(buffer, at, end);
      if (valueEnd < 0) return false;
      if (field >= 0) {
        this.starts[field] = at;
        this.ends[field] = valueEnd;
        if (--missing === 0) return true;
      }
      at = skipSpace(buffer, valueEnd, end);
      if (at >= end) return false;
      if (buffer[at] === CLOSE) return skipSpace(buffer, at + 1, end) === end;
      if (buffer[at] !== COMMA) return false;
      at = skipSpace(buffer, at + 1, end);
    }
  }

  /** True if the object has the field. */
  has(field: number): boolean {
    return this.starts[field]! >= 0;
  }

  /** Told by the first byte of its value; null for what is not JSON, such as NaN. */
  kind(field: number): ValueKind | 'missing' | null {
    const start = this.starts[field]!;
    if (start < 0) return 'missing';
    const byte = this.#buffer[start]!;
    if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) return 'number';
    return KINDS.get(byte) ?? null;
  }

  /** The JSON text of a field; null if the object lacks it. */
  text(field: number): string | null {
    return this.has(field) ? this.#buffer.toString('utf8', this.starts[field], this.ends[field]) : null;
  }

  /** The field's number; NaN if it is missing or no number. */
  number(field: number): number {
    const start = this.starts[field]!;
    if (start < 0 || this.ends[field]! - start > 40) return NaN;
    const text = this.#buffer.toString('latin1', start, this.ends[field]);
    return text === 'null' ? NaN : Number(text);
  }

  /** The field's string; null if it is missing, no string or broken. */
  string(field: number): string | null {
    const start = this.starts[field]!;
    if (start < 0 || this.#buffer[start] !== QUOTE) return null;
    const inner = this.#buffer.toString('utf8', start + 1, this.ends[field]! - 1);
    if (!inner.includes('\\')) return inner;
    try {
      return JSON.parse(this.text(field)!) as string;
    } catch {
      return null;
    }
  }

  /** The field's value; undefined if it is missing or broken inside. */
  json(field: number): unknown {
    const text = this.text(field);
    if (text === null) return undefined;
    try {
      return JSON.parse(text);
    } catch {
      return jsonOrNull(withoutNonFinite(text)) ?? undefined;
    }
  }

  /** The field's object; empty if it is missing, no object or broken inside. */
  object(field: number): Readonly<Record<string, unknown>> {
    return this.has(field) && this.#buffer[this.starts[field]!] === OPEN ? ((this.json(field) ?? {}) as Record<string, unknown>) : {};
  }

  #indexOf(start: number, end: number): number {
    const length = end - start;
    const names = this.#names;
    for (let i = 0; i < names.length; i++) {
      const name = names[i]!;
      if (name.length !== length) continue;
      let k = 0;
      while (k < length && name[k] === this.#buffer[start + k]) k++;
      if (k === length) return i;
    }
    return -1;
  }
}

/** The index of the next byte that is not white space. */
export function skipSpace(buffer: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && (buffer[at] === 32 || buffer[at] === 9 || buffer[at] === 10 || buffer[at] === 13)) at++;
  return at;
}

/** The index after a value that begins at `at`; -1 if it does not end before `end`. */
export function endOfValue(buffer: Buffer, at: number, end: number): number {
  const first = buffer[at];
  if (first === QUOTE) return endOfString(buffer, at, end);
  if (first === OPEN || first === OPEN_LIST) return endOfNested(buffer, at, end);
  let i = at;
  while (i < end && buffer[i] !== COMMA && buffer[i] !== CLOSE && buffer[i] !== CLOSE_LIST && buffer[i]! > 32) i++;
  return i > at && i < end ? i : -1;
}

function endOfNested(buffer: Buffer, from: number, end: number): number {
  let depth = 0;
  for (let i = from; i < end;) {
    const byte = buffer[i]!;
    if (byte === QUOTE) {
      i = endOfString(buffer, i, end);
      if (i < 0) return -1;
      continue;
    }
    i++;
    if (byte === OPEN || byte === OPEN_LIST) depth++;
    else if ((byte === CLOSE || byte === CLOSE_LIST) && --depth === 0) return i;
  }
  return -1;
}

/** The index after the closing quote of the string that begins at `at`. */
function endOfString(buffer: Buffer, at: number, end: number): number {
  let i = at + 1;
  const near = Math.min(end, i + NEAR);
  while (i < near) {
    const byte = buffer[i]!;
    if (byte === QUOTE) return i + 1;
    i += byte === BACKSLASH ? 2 : 1;
  }
  for (;;) {
    const quote = buffer.indexOf(QUOTE, i);
    if (quote < 0 || quote >= end) return -1;
    let backslashes = 0;
    while (quote - 1 - backslashes >= i && buffer[quote - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return quote + 1;
    i = quote + 1;
  }
}
