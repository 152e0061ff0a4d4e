/** Longer texts hold tokens or documents, and are not searched for keys. */
const MOST_SEARCHED_CHARACTERS = 2 ** 20;

/** The first key, in quotes, that the object in a text has a second time, of which JSON.parse keeps the last alone; null without one. */
export function repeatedKey(text: string): string | null {
  if (text.length > MOST_SEARCHED_CHARACTERS) return null;
  const keys = new Set<string>();
  let depth = 0;
  for (const [token, key, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/gs)) {
    if (key === undefined) depth += token === '{' || token === '[' ? 1 : -1;
    else if (colon !== undefined && depth === 1) {
      if (keys.has(key)) return key;
      keys.add(key);
    }
  }
  return null;
}
