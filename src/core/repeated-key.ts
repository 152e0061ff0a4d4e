/** Longer texts hold tokens or documents; their keys are not checked. */
const MOST_SEARCHED_CHARACTERS = 2 ** 20;

/** The first key, in quotes, that the object in a text repeats; null if there is none. JSON.parse would keep only its last value. */
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
