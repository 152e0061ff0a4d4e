/** Python's `str`, `json.dumps`, `str.strip` and `strftime` for values of the Jinja library. */

import { type Key, type RuntimeValue } from './python-runtime.ts';

type Arguments = ReadonlyMap<Key, RuntimeValue>;

/** White space according to `str.isspace`; JavaScript's `\s` lacks the separators U+001C to U+001F and U+0085, and has U+FEFF. */
const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const SPACE_BEFORE = new RegExp(`^[${SPACE}]+`);
const LAST_TEXT = new RegExp(`[^${SPACE}]`);
const MONTHS = 'January February March April May June July August September October November December'.split(' ');
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** The keys are the names that a rewritten template calls. */
export const FUNCTIONS = {
  _python_str: (values: readonly RuntimeValue[]) => values.map(pythonText).join(''),
  _python_json: ([value]: readonly [RuntimeValue], options: Arguments = new Map()) => pythonJson(value, jsonStyle(options), 0),
  _python_strip: (text: unknown, characters?: unknown) => stripEnd(stripStart(text, characters), characters),
  _python_lstrip: stripStart,
  _python_rstrip: stripEnd,
} as const;

function stripStart(text: unknown, characters?: unknown): string {
  const string = checkedText(text);
  const set = characterSet(characters);
  if (set === null) return string.replace(SPACE_BEFORE, '');
  const all = Array.from(string);
  const start = all.findIndex((character) => !set.has(character));
  return start < 0 ? '' : all.slice(start).join('');
}

function stripEnd(text: unknown, characters?: unknown): string {
  const string = checkedText(text);
  const set = characterSet(characters);
  if (set !== null) {
    const all = Array.from(string);
    return all.slice(0, all.findLastIndex((character) => !set.has(character)) + 1).join('');
  }
  let end = string.length;
  while (end > 0 && !LAST_TEXT.test(string[end - 1]!)) end -= 1;
  return string.slice(0, end);
}

function checkedText(text: unknown): string {
  if (typeof text === 'string') return text;
  throw new Error('Only a string can be stripped');
}

/** The characters to strip; null for white space. A keyword argument arrives in a Map. */
function characterSet(characters: unknown): ReadonlySet<unknown> | null {
  const given = characters instanceof Map ? (characters as Arguments).get('chars')?.value : characters;
  return typeof given === 'string' ? new Set(given) : null;
}

/** `str(value)`; empty for an undefined variable. */
export function pythonText(value: RuntimeValue): string {
  if (value.type === 'StringValue') return value.value as string;
  return value.type === 'UndefinedValue' ? '' : pythonRepr(value);
}

function pythonRepr({ type, value }: RuntimeValue): string {
  if (type === 'StringValue') return quoted(value as string);
  if (type === 'BooleanValue') return value === true ? 'True' : 'False';
  if (type === 'NullValue') return 'None';
  if (type === 'UndefinedValue') return 'Undefined';
  if (type === 'IntegerValue' || type === 'FloatValue') return pythonNumber(value as number, type);
  if (Array.isArray(value)) {
    const items = (value as readonly RuntimeValue[]).map(pythonRepr).join(', ');
    return type === 'TupleValue' ? `(${items})` : `[${items}]`;
  }
  if (!(value instanceof Map)) return '';
  return `{${Array.from(value as Arguments, ([key, inner]) => `${typeof key === 'number' ? key : quoted(key)}: ${pythonRepr(inner)}`).join(', ')}}`;
}

/** The `repr` of a string. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inner = text.replaceAll(/[\\'"]|(?! )[\p{C}\p{Z}]/gu, (character) => {
    if (character === '"' || character === "'") return character === quote ? `\\${character}` : character;
    return ESCAPES.get(character) ?? escapedCode(character.codePointAt(0)!);
  });
  return quote + inner + quote;
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\\', '\\\\'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

function escapedCode(code: number): string {
  const hex = code.toString(16);
  if (code <= 0xff) return `\\x${hex.padStart(2, '0')}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Python writes floats below 0.0001 with an exponent of at least two digits. JavaScript writes the other numbers of JSON in the same way. */
function pythonNumber(value: number, type: string): string {
  if (type === 'FloatValue' && Number.isInteger(value) && Math.abs(value) < 1e16) return value.toFixed(1);
  if (value === 0 || Math.abs(value) >= 1e-4) return String(value);
  return value.toExponential().replace(/e-(\d)$/, 'e-0$1');
}

interface JsonStyle {
  readonly indent: string | null;
  readonly separators: readonly [string, string];
  readonly isAscii: boolean;
  readonly isSorted: boolean;
}

function jsonStyle(options: Arguments): JsonStyle {
  const indent = options.get('indent')?.value;
  const separators = options.get('separators')?.value;
  const isIndented = typeof indent === 'number';
  const [item = isIndented ? ',' : ', ', key = ': '] = Array.isArray(separators) ? separators.map(({ value }: RuntimeValue) => String(value)) : [];
  return {
    indent: isIndented ? ' '.repeat(indent) : null,
    separators: [item, key],
    isAscii: options.get('ensure_ascii')?.value === true,
    isSorted: options.get('sort_keys')?.value === true,
  };
}

/** `json.dumps` as transformers calls it. */
function pythonJson({ type, value, isGenerator }: RuntimeValue, style: JsonStyle, depth: number): string {
  if (isGenerator === true || type === 'UndefinedValue')
    throw new Error(`Object of type ${isGenerator === true ? 'generator' : 'Undefined'} is not JSON serializable`);
  if (type === 'IntegerValue' || type === 'FloatValue') return pythonNumber(value as number, type);
  if (Array.isArray(value)) {
    const items = (value as readonly RuntimeValue[]).map((inner) => pythonJson(inner, style, depth + 1));
    return enclosed(items, '[]', style, depth);
  }
  if (value instanceof Map) {
    const entries = [...(value as Arguments)];
    if (style.isSorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    const items = entries.map(([key, inner]) => jsonText(String(key), style) + style.separators[1] + pythonJson(inner, style, depth + 1));
    return enclosed(items, '{}', style, depth);
  }
  if (typeof value === 'function') throw new Error('A function has no JSON');
  return typeof value === 'string' ? jsonText(value, style) : JSON.stringify(value ?? null);
}

function enclosed(items: readonly string[], brackets: string, { indent, separators: [separator] }: JsonStyle, depth: number): string {
  const [open, close] = brackets as unknown as [string, string];
  if (indent === null || items.length === 0) return open + items.join(separator) + close;
  const line = `\n${indent.repeat(depth)}`;
  return open + items.map((item, i) => (i === 0 ? '' : separator) + line + indent + item).join('') + line + close;
}

function jsonText(text: string, { isAscii }: JsonStyle): string {
  const json = JSON.stringify(text);
  return isAscii ? json.replaceAll(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`) : json;
}

/** English names in every locale, as in Python. A `-` after `%` omits a leading zero. */
export function strftime(date: Date, format: string): string {
  const two = (number: number) => String(number).padStart(2, '0');
  const hour = date.getHours();
  const [month, day] = [MONTHS[date.getMonth()]!, DAYS[date.getDay()]!];
  const texts: Readonly<Record<string, string>> = {
    Y: String(date.getFullYear()),
    y: two(date.getFullYear() % 100),
    m: two(date.getMonth() + 1),
    d: two(date.getDate()),
    e: String(date.getDate()).padStart(2),
    H: two(hour),
    I: two(hour % 12 === 0 ? 12 : hour % 12),
    p: hour < 12 ? 'AM' : 'PM',
    M: two(date.getMinutes()),
    S: two(date.getSeconds()),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    '%': '%',
  };
  return format.replaceAll(/%(-?)([A-Za-z%])/g, (whole, dash: string, letter: string) => {
    const text = texts[letter];
    if (text === undefined) return whole;
    return dash === '' ? text : text.replace(/^[0 ](?=.)/, '');
  });
}
