/** Finds JSON objects in a model's text: alone, in a code fence, or within prose that has its own braces and quotes. */
import { jsonOrNull } from '../schemas/json-or-null.ts';

/** Number of invalid objects that are searched for objects inside them: nested ones would take quadratic time. */
const MOST_BROKEN = 64;

const QUOTE = 34;
const BACKSLASH = 92;
const OPENING = 123;
const CLOSING = 125;

export type JsonObject = Readonly<Record<string, unknown>>;

/** A stretch of text that begins with an opening brace. */
export interface ObjectSpan {
  readonly start: number;
  /** Index after the closing brace; null if the brace is not closed. */
  readonly end: number | null;
  /** Null if it is not JSON. */
  readonly value: JsonObject | null;
  /** Index from which to look for further objects: after a JSON object, else inside the braces. */
  readonly next: number;
}

/**
 * Returns a function that finds the first opening brace at or after an index. Each brace is matched independently, so that a stray brace or quote does
 * not hide objects after it. All calls with increasing indices together take linear time.
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
    const value = jsonOrNull(text.slice(start, end)) as JsonObject | null;
    if (value === null) broken += 1;
    return { start, end, value, next: value === null && broken <= MOST_BROKEN ? start + 1 : end };
  };
}

/**
 * For every index outside a string, the index of the first unmatched closing brace from there on; -1 if there is none. Braces inside strings do not
 * count. Filled from the end, so that the values for what follows are known.
 */
function closingBraces(text: string): Int32Array {
  const closing = new Int32Array(text.length + 2).fill(-1);
  // For every index inside a string, the index after its closing quote.
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

/** A JSON object begins with a key or is empty; this excludes most braces in prose and code without parsing. */
function mayBeJson(text: string, start: number): boolean {
  const opening = /\{\s*["}]/y;
  opening.lastIndex = start;
  return opening.test(text);
}
