/**
 * Python's definition of whitespace, for exact equivalents of upstream's `strip()`, `split()` and `\s`. JavaScript's `trim` and `\s` differ: they leave
 * out U+001C to U+001F and U+0085, and include U+FEFF.
 */
const WHITESPACE = '\\t\\n\\v\\f\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const WHITESPACE_RUN = new RegExp(`[${WHITESPACE}]+`);

function isWhitespace(code: number): boolean {
  if (code <= 0x20) return (code >= 0x09 && code <= 0x0d) || code >= 0x1c;
  if (code < 0x1680) return code === 0x85 || code === 0xa0;
  if (code >= 0x2000 && code <= 0x200a) return true;
  return code === 0x1680 || code === 0x2028 || code === 0x2029 || code === 0x202f || code === 0x205f || code === 0x3000;
}

/** The first index from `start` on that is not whitespace, or the length. */
export function skipWhitespace(text: string, start: number): number {
  let i = start;
  while (i < text.length && isWhitespace(text.charCodeAt(i))) i++;
  return i;
}

/** `str.strip()`. Linear, unlike a regular expression for trailing whitespace. */
export function strip(text: string): string {
  const start = skipWhitespace(text, 0);
  let end = text.length;
  while (end > start && isWhitespace(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

/** `str.split()`: the words between runs of whitespace. */
export function splitWords(text: string): string[] {
  const stripped = strip(text);
  return stripped === '' ? [] : stripped.split(WHITESPACE_RUN);
}
