/** Python's `str`, `json.dumps` and `strftime` for values of the Jinja library. */
import { spend } from './python-budget.ts';
import { type Key, type RuntimeValue } from './python-runtime.ts';

type Arguments = ReadonlyMap<Key, RuntimeValue>;

const MONTHS = 'January February March April May June July August September October November December'.split(' ');
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** `str(value)`; empty for an undefined variable. */
export function pythonText(value: RuntimeValue): string {
  if (value.type === 'StringValue') return value.value as string;
  return value.type === 'UndefinedValue' ? '' : pythonRepr(value);
}

/** `repr(value)`. */
export function pythonRepr({ type, value }: RuntimeValue): string {
  spend();
  if (type === 'StringValue') return quoted(value as string);
  if (type === 'BooleanValue') return value === true ? 'True' : 'False';
  if (type === 'NullValue') return 'None';
  if (type === 'UndefinedValue') return 'Undefined';
  if (type === 'IntegerValue' || type === 'FloatValue') return pythonNumber(value as number, type);
  if (Array.isArray(value)) {
    const items = (value as readonly RuntimeValue[]).map(pythonRepr).join(', ');
    return type === 'TupleValue' ? `(${items}${value.length === 1 ? ',' : ''})` : `[${items}]`;
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
  if (Number.isNaN(value) || Math.abs(value) === Infinity) return String(value).replace('Infinity', 'inf').replace('NaN', 'nan');
  if (value === 0 || (Math.abs(value) >= 1e-4 && (type === 'IntegerValue' || Math.abs(value) < 1e16))) return String(value);
  return value.toExponential().replace(/e([-+])(\d)$/, 'e$10$2');
}

interface JsonStyle {
  readonly indent: string | null;
  readonly separators: readonly [string, string];
  readonly isAscii: boolean;
  readonly isSorted: boolean;
}

function jsonStyle(options: Arguments): JsonStyle {
  const indent = options.get('indent')?.value;
  const isText = typeof indent === 'string';
  const separators = options.get('separators')?.value;
  const isIndented = isText || typeof indent === 'number';
  const [item = isIndented ? ',' : ', ', key = ': '] = Array.isArray(separators) ? separators.map(({ value }: RuntimeValue) => String(value)) : [];
  return {
    indent: isText ? indent : typeof indent === 'number' ? ' '.repeat(Math.max(0, indent)) : null,
    separators: [item, key],
    isAscii: options.get('ensure_ascii')?.value === true,
    isSorted: options.get('sort_keys')?.value === true,
  };
}

/** `json.dumps` as transformers calls it. */
export function pythonJson(value: RuntimeValue, options: Arguments): string {
  return jsonOf(value, jsonStyle(options), 0);
}

function jsonOf({ type, value, isGenerator }: RuntimeValue, style: JsonStyle, depth: number): string {
  spend();
  if (isGenerator === true || type === 'UndefinedValue')
    throw new Error(`Object of type ${isGenerator === true ? 'generator' : 'Undefined'} is not JSON serializable`);
  if (type === 'IntegerValue' || type === 'FloatValue') return pythonNumber(value as number, type);
  if (Array.isArray(value)) {
    const items = (value as readonly RuntimeValue[]).map((inner) => jsonOf(inner, style, depth + 1));
    return enclosed(items, '[]', style, depth);
  }
  if (value instanceof Map) {
    const entries = [...(value as Arguments)];
    if (style.isSorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    const items = entries.map(([key, inner]) => jsonText(String(key), style) + style.separators[1] + jsonOf(inner, style, depth + 1));
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
