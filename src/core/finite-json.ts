/** JSON as Python writes it: with NaN and infinities. */

const NON_FINITE = /-?\b(?:NaN|Infinity)\b/g;

/** The text with NaN and infinities outside of strings as null. Linear in the text, which need not be JSON. */
export function withoutNonFinite(text: string): string {
  let plain = '';
  for (let at = 0; at < text.length;) {
    const quote = text.indexOf('"', at);
    const start = quote === -1 ? text.length : quote;
    const end = endOfString(text, start);
    plain += text.slice(at, start).replace(NON_FINITE, 'null') + text.slice(start, end);
    at = end;
  }
  return plain;
}

/** The index after the string that starts at a quote; the text's length if nothing ends it. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}
