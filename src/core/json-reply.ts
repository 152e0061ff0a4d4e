/**
 * The object of JSON that a reply ends with, and those that stand before it. A model that judges may quote objects of the text that it judges,
 * so that the place of an object says whether it is meant.
 */
import { type JsonObject, objectScanner, type ObjectSpan } from './object-scanner.ts';

export interface FinalObject {
  readonly value: JsonObject;
  /** Nothing but a code fence and a tag stands around it. */
  readonly isAlone: boolean;
  /** Objects before it, those inside braces that are not JSON included. */
  readonly earlier: readonly JsonObject[];
}

/**
 * The object that ends the text; a code fence and a tag may close after it if they open right before it. Else what is wrong, with the reply
 * as `it`. Nothing inside braces that are not closed, or that are not JSON, is taken. Never throws.
 */
export function finalObject(text: string): FinalObject | string {
  const scan = objectScanner(text);
  let last: ObjectSpan | null = null;
  for (let span = scan(0); span !== null; span = scan(span.end)) {
    if (span.end === null) return 'an opening brace in it is never closed';
    last = span;
  }
  if (last === null) return 'it holds no JSON object';
  if (last.value === null) return 'it does not end with a JSON object';
  const before = unwrapped(text.slice(0, last.start), text.slice(last.end!));
  if (before === null) return 'text follows its last JSON object';
  if (repeatsKey(text.slice(last.start, last.end!))) return 'its JSON object has the same key twice';
  return { value: last.value, isAlone: before === '', earlier: jsonObjects(text.slice(0, last.start)) };
}

/** The objects in the order of the text, those inside other objects left out. Never throws. */
export function jsonObjects(text: string): readonly JsonObject[] {
  const scan = objectScanner(text);
  const found: JsonObject[] = [];
  for (let span = scan(0); span !== null; span = scan(span.next)) if (span.value !== null) found.push(span.value);
  return found;
}

/** What stands before the object, without the fence and the tag that close after it; null where anything else follows. */
function unwrapped(before: string, after: string): string | null {
  const closed = /^(```)?\s*(?:<\/([\w-]+)>)?$/.exec(after.trim());
  if (closed === null) return null;
  const [, fence, tag] = closed;
  let rest = before.trim();
  if (fence !== undefined) {
    const opening = /```[\w-]*$/.exec(rest);
    if (opening === null) return null;
    rest = rest.slice(0, opening.index).trimEnd();
  }
  if (tag === undefined) return rest;
  return rest.endsWith(`<${tag}>`) ? rest.slice(0, -(tag.length + 2)).trimEnd() : null;
}

/** Whether an object in `json` has a key twice. The last one would win, and a quoted text may have brought it. */
function repeatsKey(json: string): boolean {
  const keys: Set<string>[] = [];
  let word = '';
  for (const [token] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}:]/gs)) {
    if (token === '{') keys.push(new Set());
    else if (token === '}') keys.pop();
    else if (token !== ':') word = token;
    else {
      const key = JSON.parse(word) as string;
      if (keys.at(-1)!.has(key)) return true;
      keys.at(-1)!.add(key);
    }
  }
  return false;
}
