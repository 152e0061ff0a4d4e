/** JSON and numbers as Python reads them, for texts that upstream parses with Python. */
import { strip } from 'vf-search/metrics/python-text';

/** What Python's json module takes beyond JSON. */
const CONSTANTS = /-?Infinity|NaN/g;
/** Begins the JSON string that stands for a constant until it is revived. */
const MARK = '\0python:';

/** `float(text)`: digits, with single underscores between them, or a name of infinity or NaN. */
const FLOAT = /^[+-]?(?:(?:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?|inf(?:inity)?|nan)$/i;

/**
 * `json.loads(text)`: NaN, Infinity and -Infinity are numbers. Linear in the text.
 * @returns undefined if the text is not JSON to Python
 */
export function pythonJson(text: string): unknown {
  const plain = parsed(text);
  if (plain !== undefined || !/NaN|Infinity/.test(text)) return plain;
  const replaced = withoutConstants(text);
  return replaced === null ? undefined : parsed(replaced, revive);
}

/** `float(value)` of a value that `pythonJson` gave. @returns undefined where Python raises */
export function pythonFloat(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value !== 'string') return undefined;
  const text = strip(value);
  if (!FLOAT.test(text)) return undefined;
  if (/nan/i.test(text)) return NaN;
  if (/inf/i.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  return Number(text.replaceAll('_', ''));
}

function parsed(text: string, reviver?: (key: string, value: unknown) => unknown): unknown {
  try {
    return JSON.parse(text, reviver);
  } catch {
    return undefined;
  }
}

function revive(_key: string, value: unknown): unknown {
  return typeof value === 'string' && value.startsWith(MARK) ? Number(value.slice(MARK.length)) : value;
}

/** The text with a JSON string for every constant outside strings; null if a string is not closed. */
function withoutConstants(text: string): string | null {
  let out = '';
  for (let at = 0; at < text.length;) {
    const quote = text.indexOf('"', at);
    out += text.slice(at, quote === -1 ? text.length : quote).replace(CONSTANTS, (name) => JSON.stringify(MARK + name));
    if (quote === -1) break;
    let end = quote + 1;
    while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
    if (end >= text.length) return null;
    out += text.slice(quote, end + 1);
    at = end + 1;
  }
  return out;
}
