/** Finds objects of JSON in what a model wrote: alone, in a code fence, or amid prose that has braces and quotes of its own. */

/** So many objects that are not JSON are looked into: text of nested ones must not take quadratic time. */
const MOST_BROKEN = 64;

const QUOTE = 34;
const BACKSLASH = 92;
const OPENING = 123;
const CLOSING = 125;

export type JsonObject = Readonly<Record<string, unknown>>;

/** A brace, and what it opens. */
export interface ObjectSpan {
  readonly start: number;
  /** Past the brace that closes it; null where none does. */
  readonly end: number | null;
  /** Null where it is not JSON. */
  readonly value: JsonObject | null;
  /** Where further objects may stand: past an object of JSON, else inside the braces. */
  readonly next: number;
}

/**
 * Gives the first opening brace at or after an index. Each brace is read for itself, so that a stray one, or a stray quote, hides no object
 * after it. Takes time linear in the text over all calls that go forward.
 */
export function objectScanner(text: string): (from: number) => ObjectSpan | null {
  const closing = closingBraces(text);
  let broken = 0;
  return (from) => {
    const start = text.indexOf('{', from);
    if (start < 0) return null;
    const closedAt = closing[start + 1]!;
    if (closedAt < 0) return { start, end: null, value: null, next: start + 1 };
    const end = closedAt + 1;
    if (!mayBeJson(text, start)) return { start, end, value: null, next: start + 1 };
    const value = parsedObject(text.slice(start, end));
    if (value === null) broken += 1;
    return { start, end, value, next: value === null && broken <= MOST_BROKEN ? start + 1 : end };
  };
}

/**
 * For every index outside a string, the closing brace that the text from there on has one too many; -1 where it has none. Braces inside
 * strings do not count. Written from the end, where the answers for what follows are known.
 */
function closingBraces(text: string): Int32Array {
  const closing = new Int32Array(text.length + 2).fill(-1);
  // Past the quote that ends a string, for every index inside one.
  const stringEnd = new Int32Array(text.length + 2).fill(-1);
  const after = (index: number) => (index < 0 ? -1 : closing[index]!);
  for (let at = text.length - 1; at >= 0; at--) {
    const code = text.charCodeAt(at);
    stringEnd[at] = code === QUOTE ? at + 1 : stringEnd[at + (code === BACKSLASH ? 2 : 1)]!;
    if (code === CLOSING) closing[at] = at;
    else if (code === OPENING) closing[at] = closing[at + 1]! < 0 ? -1 : after(closing[at + 1]! + 1);
    else if (code === QUOTE) closing[at] = after(stringEnd[at + 1]!);
    else closing[at] = closing[at + 1]!;
  }
  return closing;
}

/** An object of JSON begins with a key or is empty: most braces of prose and code are told apart without parsing. */
function mayBeJson(text: string, start: number): boolean {
  const opening = /\{\s*["}]/y;
  opening.lastIndex = start;
  return opening.test(text);
}

function parsedObject(source: string): JsonObject | null {
  try {
    return JSON.parse(source) as JsonObject;
  } catch {
    // Not JSON: the caller looks elsewhere in the text.
    return null;
  }
}
