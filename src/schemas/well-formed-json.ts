/** An escape of JSON; with a group if it is half a surrogate, which JSON.stringify writes only where the other half is missing. */
const ESCAPE = /\\(?:(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)/gs;

/**
 * JSON text of JSON.stringify with U+FFFD for every half of a surrogate pair: Arrow, and with it Hugging Face `datasets`, refuses a whole file for one of them.
 * @example wellFormedJson(JSON.stringify('a\ud800')) // '"a\ufffd"'
 */
export function wellFormedJson(text: string): string {
  return text.includes('\\ud') ? text.replace(ESCAPE, (escape, half: string | undefined) => (half === undefined ? escape : '\ufffd')) : text;
}
