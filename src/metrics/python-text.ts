/**
 * Python's string methods, for exact equivalents of code written in it. Its whitespace is not JavaScript's: `trim` and `\s` leave out U+001C to U+001F
 * and U+0085, and include U+FEFF. Everything here is linear, where a regular expression for trailing whitespace or an article is not.
 */

/** Python's `string.punctuation`, 32 characters, for a character class. */
export const ASCII_PUNCTUATION = '!-/:-@[-`{-~';
/** The characters of Python's `\\s`, for a character class. */
export const WHITESPACE = '\\t\\n\\v\\f\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const WHITESPACE_RUN = new RegExp(`[${WHITESPACE}]+`);
const WHITESPACE_RUNS = new RegExp(`[${WHITESPACE}]+`, 'g');
/** One character of Python's `\w`: a letter, a number or an underscore, but no combining mark. */
const WORD_CHARACTER = /^[\p{L}\p{N}_]/u;
/** `\b(a|an|the)\b` with Python's word characters: letters, numbers and underscore, but no combining marks. */
const ARTICLE = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;

/** Tells whether a UTF-16 code unit is whitespace to Python. */
export function isWhitespace(code: number): boolean {
  if (code <= 0x20) return (code >= 0x09 && code <= 0x0d) || code >= 0x1c;
  if (code < 0x1680) return code === 0x85 || code === 0xa0;
  if (code >= 0x2000 && code <= 0x200a) return true;
  return code === 0x1680 || code === 0x2028 || code === 0x2029 || code === 0x202f || code === 0x205f || code === 0x3000;
}

/** Tells whether the character that begins at the index is one of Python's `\w`. */
export function isWordAt(text: string, index: number): boolean {
  const point = text.codePointAt(index);
  return point !== undefined && WORD_CHARACTER.test(String.fromCodePoint(point));
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

/** `"".join(text.split())`: the text without any whitespace. */
export function withoutWhitespace(text: string): string {
  return text.replace(WHITESPACE_RUNS, '');
}

/** `text.strip(characters)`: the text without the characters of the set at both ends. The set may hold only characters of the basic plane. */
export function stripCharacters(text: string, characters: string): string {
  let start = 0;
  while (start < text.length && characters.includes(text[start]!)) start++;
  let end = text.length;
  while (end > start && characters.includes(text[end - 1]!)) end--;
  return text.slice(start, end);
}

/** The last of `re.findall(open + "(.*?)" + close, text, re.DOTALL)`, for literal texts; null if there is none. */
export function lastBetween(text: string, open: string, close: string): string | null {
  let last: string | null = null;
  for (let from = 0; ;) {
    const begin = text.indexOf(open, from);
    const end = begin < 0 ? -1 : text.indexOf(close, begin + open.length);
    if (end < 0) return last;
    last = text.slice(begin + open.length, end);
    from = end + close.length;
  }
}

/** `re.sub(r"\b(a|an|the)\b", " ", text)`, for lower-cased text. */
export function replaceArticles(text: string): string {
  return text.replace(ARTICLE, ' ');
}

/**
 * The Unicode code points of a string; a lone surrogate is one, as in a Python string.
 * @returns [n]
 */
export function codePoints(text: string): Int32Array {
  const points = new Int32Array(text.length);
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const point = text.codePointAt(i)!;
    if (point > 0xffff) i++;
    points[count++] = point;
  }
  return points.subarray(0, count);
}
