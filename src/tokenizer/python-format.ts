/** Python's `'%s' % value` and `'{}'.format(value)`, with the flags, widths and conversions of both. */
import { entriesOf, isDict, isList, isText, itemsOf, type Key, missing, numberOf, pythonType, type RuntimeValue, textOf } from './python-runtime.ts';
import { pythonRepr, pythonText } from './python-values.ts';

/** How one value is written. */
interface Style {
  readonly fill: string;
  /** Null: texts to the left, numbers to the right. */
  readonly align: string | null;
  readonly sign: string;
  readonly hasPrefix: boolean;
  readonly width: number;
  readonly grouping: string;
  readonly precision: number | null;
  readonly kind: string;
}

const PERCENT = /%(?:\((\w+)\))?([-+ 0#]*)(?!0)(\d*)(?:\.(\d+))?([a-zA-Z%])/g;
const SPECIFICATION = /^(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d*)([,_])?(?:\.(\d+))?([a-zA-Z%])?$/su;
const FIELD = /\{\{|\}\}|\{([^{}!:]*)(?:!([rsa]))?(?::([^{}]*))?\}/g;

/** Throws what Python refuses: values that are missing, left over or of another type. */
export function percentFormatted(format: string, right: RuntimeValue): string {
  const values = right.type === 'TupleValue' ? itemsOf(right) : [right];
  let next = 0;
  const written = format.replaceAll(
    PERCENT,
    (_, name: string | undefined, flags: string, width: string, precision: string | undefined, kind: string) => {
      if (kind === '%') return '%';
      const value = name === undefined ? values[next++] : named(right, name);
      if (value === undefined) throw new Error('not enough arguments for format string');
      const isTextual = kind === 's' || kind === 'r' || kind === 'a' || kind === 'c';
      const align = flags.includes('-') ? '<' : flags.includes('0') && !isTextual ? '=' : '>';
      const style: Style = {
        fill: align === '=' ? '0' : ' ',
        align,
        sign: /[+ ]/.exec(flags)?.[0] ?? '',
        hasPrefix: flags.includes('#'),
        width: Number(width),
        grouping: '',
        precision: precision === undefined ? null : Number(precision),
        kind,
      };
      return isTextual ? padded(cut(kind === 'r' ? pythonRepr(value) : pythonText(value), style), style) : numberText(value, style);
    },
  );
  if (next < values.length && !isDict(right) && !isList(right)) throw new Error('not all arguments converted during string formatting');
  if (right.type === 'TupleValue' && next < values.length) throw new Error('not all arguments converted during string formatting');
  return written;
}

function named(right: RuntimeValue, name: string): RuntimeValue | undefined {
  if (!isDict(right)) throw new Error('format requires a mapping');
  return entriesOf(right).get(name);
}

/** Throws if a field has no value, or a specification does not fit it. */
export function bracesFormatted(format: string, positional: readonly RuntimeValue[], keywords: ReadonlyMap<Key, RuntimeValue>): string {
  let next = 0;
  return format.replaceAll(FIELD, (whole, path: string | undefined, conversion: string | undefined, specification: string | undefined) => {
    if (path === undefined) return whole[0]!;
    const [name = '', ...steps] = path.split(/\.|\[|\]\.?/).filter((part, i) => i === 0 || part !== '');
    let value = /^\d*$/.test(name) ? positional[name === '' ? next++ : Number(name)] : keywords.get(name);
    for (const step of steps) value = partOf(value ?? missing(), step);
    if (value === undefined) throw new Error(`Replacement ${whole} has no value`);
    if (conversion === 'r') return padded(pythonRepr(value), styleOf(specification ?? ''));
    return specification === undefined || specification === '' ? pythonText(value) : specified(value, styleOf(specification));
  });
}

function partOf(value: RuntimeValue, step: string): RuntimeValue | undefined {
  return isDict(value) ? entriesOf(value).get(step) : isList(value) ? itemsOf(value)[Number(step)] : undefined;
}

function styleOf(specification: string): Style {
  const found = SPECIFICATION.exec(specification);
  if (found === null) throw new Error(`Invalid format specifier '${specification}'`);
  const [, fill, align, sign = '', prefix, zero, width = '', grouping = '', precision, kind = ''] = found;
  return {
    fill: fill ?? (zero === undefined ? ' ' : '0'),
    align: align ?? (zero === undefined ? null : '='),
    sign: sign === '-' ? '' : sign,
    hasPrefix: prefix !== undefined,
    width: Number(width),
    grouping,
    precision: precision === undefined ? null : Number(precision),
    kind,
  };
}

function specified(value: RuntimeValue, style: Style): string {
  if (isText(value)) {
    if (style.kind !== '' && style.kind !== 's') throw new Error(`Unknown format code '${style.kind}' for object of type 'str'`);
    return padded(cut(textOf(value), style), style);
  }
  const kind = style.kind === '' ? (value.type === 'IntegerValue' ? 'd' : style.precision === null ? 'r' : 'g') : style.kind;
  if (numberOf(value) === null) throw new Error(`unsupported format string passed to ${pythonType(value)}.__format__`);
  if (kind === 'd' && value.type === 'FloatValue') throw new Error("Unknown format code 'd' for object of type 'float'");
  return kind === 'r' ? padded(pythonText(value), { ...style, align: style.align ?? '>' }) : numberText(value, { ...style, kind });
}

function numberText(value: RuntimeValue, style: Style): string {
  const number = numberOf(value);
  if (number === null) throw new Error(`%${style.kind} format: a real number is required, not ${pythonType(value)}`);
  const digits = grouped(digitsOf(Math.abs(number), style), style.grouping);
  const sign = number < 0 || Object.is(number, -0) ? '-' : style.sign;
  const prefix = style.hasPrefix && /[xXob]/.test(style.kind) ? `0${style.kind}` : '';
  if (style.align !== '=') return padded(sign + prefix + digits, { ...style, align: style.align ?? '>' });
  return sign + prefix + style.fill.repeat(Math.max(0, style.width - (sign + prefix + digits).length)) + digits;
}

function digitsOf(number: number, { kind, precision }: Style): string {
  const places = precision ?? 6;
  switch (kind) {
    case 'd':
    case 'i':
    case 'u':
    case 'n':
      return String(Math.trunc(number));
    case 'x':
      return number.toString(16);
    case 'X':
      return number.toString(16).toUpperCase();
    case 'o':
      return number.toString(8);
    case 'b':
      return number.toString(2);
    case 'f':
    case 'F':
      return number.toFixed(places);
    case '%':
      return `${(number * 100).toFixed(places)}%`;
    case 'e':
    case 'E':
      return exponential(number, places, kind);
    case 'g':
    case 'G':
      return general(number, places === 0 ? 1 : places, kind);
    default:
      throw new Error(`unsupported format character '${kind}'`);
  }
}

function exponential(number: number, places: number, kind: string): string {
  const text = number.toExponential(places).replace(/e([-+])(\d)$/, 'e$10$2');
  return kind === 'E' ? text.toUpperCase() : text;
}

function general(number: number, places: number, kind: string): string {
  const exponent = number === 0 ? 0 : Number(number.toExponential(places - 1).split('e')[1]);
  const short = (text: string) => (text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text);
  if (exponent >= -4 && exponent < places) return short(number.toFixed(places - 1 - exponent));
  const [mantissa = '', power = ''] = exponential(number, places - 1, 'e').split('e');
  return `${short(mantissa)}${kind === 'G' ? 'E' : 'e'}${power}`;
}

function grouped(digits: string, separator: string): string {
  return separator === '' ? digits : digits.replace(/^\d+/, (whole) => whole.replaceAll(/\B(?=(?:\d{3})+$)/g, separator));
}

function cut(text: string, { precision }: Style): string {
  return precision === null ? text : Array.from(text).slice(0, precision).join('');
}

function padded(text: string, { fill, align, width }: Style): string {
  const missingWidth = Math.max(0, width - Array.from(text).length);
  const before = align === '>' || align === '=' ? missingWidth : align === '^' ? Math.floor(missingWidth / 2) : 0;
  return fill.repeat(before) + text + fill.repeat(missingWidth - before);
}
