/** JSON and numbers as Python reads them, for texts that upstream parses with Python. */
import { strip } from 'vf-search/metrics/python-text';

/** The constants that Python's json module accepts in addition to JSON. */
const CONSTANTS = /-?Infinity|NaN/g;

/** Python refuses an integer with more digits. */
const LONGEST_INTEGER = 4300;

/** `float(text)`: digits of any script, with single underscores between them, or a name of infinity or NaN. */
const FLOAT =
  /^[+-]?(?:(?:\p{Nd}+(?:_\p{Nd}+)*(?:\.(?:\p{Nd}+(?:_\p{Nd}+)*)?)?|\.\p{Nd}+(?:_\p{Nd}+)*)(?:[eE][+-]?\p{Nd}+(?:_\p{Nd}+)*)?|(?:inf(?:inity)?|nan))$/iu;

/**
 * `json.loads(text)`: NaN, Infinity and -Infinity are numbers, and an integer of more than 4300 digits is an error. Linear in the text.
 * @returns undefined if the text is not JSON to Python
 */
export function pythonJson(text: string): unknown {
  const constants = new Map<string, number>();
  const replaced = /NaN|Infinity/.test(text) ? withoutConstants(text, constants) : text;
  let isTooLong = false;
  // The source of a number is its spelling in the text.
  const revive = (_key: string, value: unknown, { source }: { readonly source?: string }): unknown => {
    if (typeof value !== 'number' || source === undefined) return value;
    if (source.length > LONGEST_INTEGER && /^-?\d+$/.test(source) && source.replace('-', '').length > LONGEST_INTEGER) isTooLong = true;
    return constants.get(source) ?? value;
  };
  try {
    const value: unknown = constants.size > 0 || text.length > LONGEST_INTEGER ? JSON.parse(replaced, revive as Reviver) : JSON.parse(replaced);
    return isTooLong ? undefined : value;
  } catch {
    return undefined;
  }
}

/** `float(value)` of a result of `pythonJson`. An integer too large for a float is infinite here. @returns undefined if Python raises */
export function pythonFloat(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value !== 'string') return undefined;
  const text = strip(value);
  if (!FLOAT.test(text)) return undefined;
  if (/nan/i.test(text)) return NaN;
  if (/inf/i.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  return Number(text.replaceAll('_', '').replace(/\p{Nd}/gu, digitOf));
}

type Reviver = Parameters<typeof JSON.parse>[1];

/** The value of a decimal digit of any script. Unicode keeps the ten digits of a script together, from zero to nine. */
function digitOf(digit: string): string {
  const code = digit.codePointAt(0)!;
  let zero = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
  return String((code - zero) % 10);
}

/** Replaces every constant outside strings with a number that does not occur in the text, and adds these numbers to `constants`. */
function withoutConstants(text: string, constants: Map<string, number>): string {
  let tag = 0;
  while (text.includes(`0e${tag}7`)) tag += 1;
  const literals = new Map(['NaN', 'Infinity', '-Infinity'].map((name, i) => [name, `0e${tag}7${i}`]));
  for (const [name, literal] of literals) constants.set(literal, Number(name));
  let out = '';
  for (let at = 0; at < text.length;) {
    const quote = text.indexOf('"', at);
    out += text.slice(at, quote === -1 ? text.length : quote).replace(CONSTANTS, (name) => ` ${literals.get(name)!} `);
    if (quote === -1) break;
    let end = quote + 1;
    while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
    out += text.slice(quote, end + 1);
    at = end + 1;
  }
  return out;
}
