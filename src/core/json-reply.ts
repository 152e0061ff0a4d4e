/**
 * Finds the JSON object at the end of a reply, and those before it. A judge may quote objects of the text that it judges, so an object's position
 * decides whether it is the judge's own.
 */
import { type JsonObject, objectScanner, type ObjectSpan } from './object-scanner.ts';

export interface FinalObject {
  readonly value: JsonObject;
  /** True if the only other text is a code fence and a tag around it. */
  readonly isAlone: boolean;
  /** Objects before it, including those inside braces that are not JSON. */
  readonly earlier: readonly JsonObject[];
}

/**
 * The object at the end of the text; a code fence and a tag around it are allowed. Otherwise a string that describes the fault, with the reply as `it`.
 * Ignores objects inside braces that are not closed or not JSON. Never throws.
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

/** The outermost JSON objects, in the order of the text. Never throws. */
export function jsonObjects(text: string): readonly JsonObject[] {
  const scan = objectScanner(text);
  const found: JsonObject[] = [];
  for (let span = scan(0); span !== null; span = scan(span.next)) if (span.value !== null) found.push(span.value);
  return found;
}

/** The text before the object, without an opening fence and tag that close after it; null if any other text follows the object. */
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

/** Tells whether an object in `json` has a key twice. JSON.parse would take the last one, which may come from a quotation. */
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
