/** JSON objects in what a model wrote: alone, in a code fence, or amid prose. */

/** So many opening braces are tried: a reply of braces must not take quadratic time. */
const MOST_STARTS = 64;

/** The objects in the order of the text, an object inside another not told apart from it. Never throws. */
export function jsonObjects(text: string): readonly Readonly<Record<string, unknown>>[] {
  const whole = parseObject(text.trim());
  if (whole !== null) return [whole];
  const found: Readonly<Record<string, unknown>>[] = [];
  let start = text.indexOf('{');
  for (let tried = 0; start >= 0 && tried < MOST_STARTS; tried++) {
    const end = objectEnd(text, start);
    const value = end === null ? null : parseObject(text.slice(start, end));
    if (value !== null) found.push(value);
    start = text.indexOf('{', value === null ? start + 1 : end!);
  }
  return found;
}

function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  if (!text.startsWith('{')) return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>> | null) : null;
  } catch {
    // Not JSON: the caller looks elsewhere in the text.
    return null;
  }
}

/** Past the brace that closes the one at `start`; null where none does. Braces inside strings do not count. */
function objectEnd(text: string, start: number): number | null {
  let depth = 0;
  let isInString = false;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (isInString) {
      if (character === '\\') at += 1;
      else if (character === '"') isInString = false;
    } else if (character === '"') isInString = true;
    else if (character === '{') depth += 1;
    else if (character === '}' && --depth === 0) return at + 1;
  }
  return null;
}
