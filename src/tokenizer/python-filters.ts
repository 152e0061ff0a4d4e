/** Jinja's filters as Python's Jinja has them, where the library lacks them, knows fewer types or arguments, or answers as JavaScript does. */
import { spend, spendText } from './python-budget.ts';
import { binary, compare, escaped, isEqual } from './python-operators.ts';
import {
  dict,
  entriesOf,
  float,
  generator,
  integer,
  isDict,
  isList,
  isMissing,
  isNone,
  isText,
  isTrue,
  iterate,
  itemsOf,
  keyValue,
  list,
  missing,
  none,
  numberOf,
  pythonType,
  type RuntimeValue,
  text,
  textOf,
  tuple,
} from './python-runtime.ts';
import { testOf } from './python-tests.ts';
import { stripped, textMethod, upperFirst } from './python-text-methods.ts';
import { pythonJson, pythonText } from './python-values.ts';

export interface FilterArguments {
  readonly positional: readonly RuntimeValue[];
  readonly named: ReadonlyMap<string, RuntimeValue>;
  /** Applies a filter by its name. */
  readonly apply: (name: string, value: RuntimeValue, positional: readonly RuntimeValue[]) => RuntimeValue;
}

type Filter = (value: RuntimeValue, args: FilterArguments) => RuntimeValue;

/** The argument of this place or name. */
function argument({ positional, named }: FilterArguments, place: number, name: string): RuntimeValue | null {
  return positional[place] ?? named.get(name) ?? null;
}

export const FILTERS: Readonly<Record<string, Filter>> = {
  length,
  count: length,
  list: (value) => list(iterate(value)),
  first: (value) => (value.isGenerator === true ? (value.value as RuntimeValue[]).shift() : iterate(value)[0]) ?? missing(),
  last: (value) => {
    if (value.isGenerator === true) throw new Error("'generator' object is not reversible");
    return iterate(value).at(-1) ?? missing();
  },
  join,
  reverse: (value) => (isText(value) ? text(Array.from(textOf(value)).toReversed().join('')) : generator([...iterate(value)].toReversed())),
  unique: (value, args) => {
    const key = sortKey(argument(args, 1, 'attribute'), argument(args, 0, 'case_sensitive'));
    const found: RuntimeValue[] = [];
    for (const item of iterate(value)) if (!found.some((known) => isEqual(key(known), key(item)))) found.push(item);
    return generator(found);
  },
  sort: (value, args) => {
    const key = sortKey(argument(args, 2, 'attribute'), argument(args, 1, 'case_sensitive'));
    const sign = isSet(argument(args, 0, 'reverse')) ? -1 : 1;
    return list(iterate(value).toSorted((a, b) => sign * compare(key(a), key(b))));
  },
  groupby: (value, args) => {
    const attribute = argument(args, 0, 'attribute') ?? missing();
    const otherwise = argument(args, 1, 'default');
    const of = (item: RuntimeValue) => defaultOf(attributeOf(item, attribute), otherwise);
    const key = (item: RuntimeValue) => (isSet(argument(args, 2, 'case_sensitive')) ? of(item) : folded(of(item)));
    const groups: RuntimeValue[][] = [];
    for (const item of iterate(value).toSorted((a, b) => compare(key(a), key(b)))) {
      if (groups.length > 0 && isEqual(key(groups.at(-1)![0]!), key(item))) groups.at(-1)!.push(item);
      else groups.push([item]);
    }
    return list(groups.map((group) => tuple([of(group[0]!), list(group)])));
  },
  batch: (value, args) => {
    const [items, size, fill] = [iterate(value), numberOf(argument(args, 0, 'linecount') ?? missing()) ?? 0, argument(args, 1, 'fill_with')];
    if (size < 1) throw new Error('batch needs the number of items of a batch');
    if (fill !== null) spend(size);
    return generator(
      Array.from({ length: Math.ceil(items.length / size) }, (_, i) => {
        const batch = items.slice(i * size, (i + 1) * size);
        return list(fill === null ? batch : [...batch, ...Array.from({ length: size - batch.length }, () => fill)]);
      }),
    );
  },
  map: (value, args) => generator(isTrue(value) ? iterate(value).map(mapping(args)) : []),
  select: (value, args) => chosen(value, args, true),
  reject: (value, args) => chosen(value, args, false),
  selectattr: (value, args) => chosen(value, args, true, true),
  rejectattr: (value, args) => chosen(value, args, false, true),
  items: (value) => {
    if (isMissing(value)) return generator([]);
    if (!isDict(value)) throw new Error('Can only get item pairs from a mapping.');
    return generator(pairsOf(value));
  },
  dictsort,
  min: (value, args) => extreme(value, args, -1),
  max: (value, args) => extreme(value, args, 1),
  int: (value, args) => {
    if (isMissing(value)) throw new Error('An undefined value is not a number');
    const number = isText(value) ? wholeIn(textOf(value), numberOf(argument(args, 1, 'base') ?? integer(10)) ?? 10) : numberOf(value);
    return number === null || !Number.isFinite(number) ? (argument(args, 0, 'default') ?? integer(0)) : integer(Math.trunc(number));
  },
  float: (value, args) => {
    if (isMissing(value)) throw new Error('An undefined value is not a number');
    const number = isText(value) ? numberIn(textOf(value)) : numberOf(value);
    return number === null ? (argument(args, 0, 'default') ?? float(0)) : float(number);
  },
  sum: (value, args) => {
    const attribute = argument(args, 0, 'attribute');
    const items = iterate(value).map((item) => (attribute === null ? item : attributeOf(item, attribute)));
    return items.reduce((total, item) => binary('+', total, item), argument(args, 1, 'start') ?? integer(0));
  },
  format: (value, { positional, named }) => binary('%', text(pythonText(value)), named.size > 0 ? dict(named) : tuple(positional)),
  string: (value) => text(pythonText(value)),
  trim: (value, args) => text(stripped(pythonText(value), argument(args, 0, 'chars') ?? none())),
  capitalize: (value) => text(upperFirst(pythonText(value))),
  replace: (value, args) => {
    const [own, old, put] = [pythonText(value), argument(args, 0, 'old'), argument(args, 1, 'new')];
    if (old === null || put === null) throw new Error('replace needs two arguments');
    const [from, to, count] = [pythonText(old), pythonText(put), numberOf(argument(args, 2, 'count') ?? missing()) ?? Infinity];
    let left = count < 0 ? Infinity : count;
    return text(own.replaceAll(from, (found) => (left-- > 0 ? to : found)));
  },
  center: (value, args) => textMethod(pythonText(value), 'center')!([argument(args, 0, 'width') ?? integer(80)]),
  indent: (value, args) => {
    const width = argument(args, 0, 'width') ?? integer(4);
    const space = isText(width) ? textOf(width) : ' '.repeat(numberOf(width) ?? 0);
    const [isFirst, isBlank] = [isSet(argument(args, 1, 'first')), isSet(argument(args, 2, 'blank'))];
    const lines = pythonText(value).split('\n');
    return text(lines.map((line, i) => ((i === 0 ? isFirst : line !== '' || isBlank) ? space + line : line)).join('\n'));
  },
  _grouped: (value) => value,
  wordcount: (value) => integer(pythonText(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0),
  attr: () => missing(),
  tojson: (value, { positional, named }) =>
    text(pythonJson(value, new Map([...JSON_OPTIONS.slice(0, positional.length).map((name, i) => [name, positional[i]!] as const), ...named]))),
  round: (value, args) => {
    const number = numberOf(value);
    if (number === null) throw new Error(`type ${pythonType(value)} doesn't define __round__ method`);
    const precision = numberOf(argument(args, 0, 'precision') ?? integer(0)) ?? 0;
    const scale = 10 ** precision;
    const method = argument(args, 1, 'method');
    if (method === null || textOf(method) === 'common') {
      const rounded = precision > 0 ? Number(number.toFixed(precision)) : halfToEven(number * scale) / scale;
      return value.type === 'FloatValue' ? float(rounded) : integer(rounded);
    }
    return float((textOf(method) === 'ceil' ? Math.ceil : Math.floor)(number * scale) / scale);
  },
  default: defaulted,
  d: defaulted,
  safe: (value) => text(pythonText(value), true),
  e: escape,
  escape,
};

const JSON_OPTIONS = ['ensure_ascii', 'indent', 'separators', 'sort_keys'] as const;

/** Filters of text that take any value as text. */
export const OF_TEXT: ReadonlySet<string> = new Set(['upper', 'lower', 'title']);

function length(value: RuntimeValue): RuntimeValue {
  if (value.isGenerator !== true) {
    if (isText(value)) return integer(Array.from(textOf(value)).length);
    if (isList(value) || isMissing(value) || isDict(value)) return integer(iterate(value).length);
  }
  throw new Error(`object of type '${pythonType(value)}' has no len()`);
}

function join(value: RuntimeValue, args: FilterArguments): RuntimeValue {
  const attribute = argument(args, 1, 'attribute');
  const parts = iterate(value).map((item) => pythonText(attribute === null ? item : attributeOf(item, attribute)));
  return text(parts.join(pythonText(argument(args, 0, 'd') ?? text(''))));
}

/** What `sort`, `unique`, `min` and `max` compare: an item, or its attributes, whose names a comma separates. */
function sortKey(attribute: RuntimeValue | null, isCased: RuntimeValue | null): (item: RuntimeValue) => RuntimeValue {
  const fold = isSet(isCased) ? (one: RuntimeValue) => one : folded;
  if (attribute === null || isNone(attribute)) return fold;
  const names =
    isText(attribute) && textOf(attribute).includes(',')
      ? textOf(attribute)
          .split(',')
          .map((name) => text(name))
      : [attribute];
  return names.length === 1 ? (item) => fold(attributeOf(item, names[0]!)) : (item) => list(names.map((name) => fold(attributeOf(item, name))));
}

function extreme(value: RuntimeValue, args: FilterArguments, sign: number): RuntimeValue {
  const key = sortKey(argument(args, 1, 'attribute'), argument(args, 0, 'case_sensitive'));
  const [first = missing(), ...others] = iterate(value);
  return others.reduce((best, item) => (sign * compare(key(item), key(best)) > 0 ? item : best), first);
}

const isSet = (value: RuntimeValue | null) => value !== null && isTrue(value);
const defaultOf = (value: RuntimeValue, otherwise: RuntimeValue | null) => (isMissing(value) && otherwise !== null ? otherwise : value);

function defaulted(value: RuntimeValue, args: FilterArguments): RuntimeValue {
  const boolean = argument(args, 1, 'boolean');
  return isMissing(value) || (boolean !== null && isTrue(boolean) && !isTrue(value)) ? (argument(args, 0, 'default_value') ?? text('')) : value;
}

function escape(value: RuntimeValue): RuntimeValue {
  return value.isSafe === true ? value : text(escaped(pythonText(value)), true);
}

/** A number as `int` and `float` of Python read it; null if they refuse. */
function numberIn(written: string): number | null {
  const trimmed = written.trim();
  const special = /^([-+]?)(inf|infinity|nan)$/i.exec(trimmed);
  if (special !== null) return special[2]!.toLowerCase() === 'nan' ? Number.NaN : special[1] === '-' ? -Infinity : Infinity;
  return /^[-+]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed.replaceAll('_', '')) : null;
}

/** As `int(text, base)` reads it, and in base 10 as a float too. */
function wholeIn(written: string, base: number): number | null {
  const digits = written.trim().toLowerCase().replaceAll('_', '');
  const [, sign = '', prefix, rest = ''] = /^([-+]?)(0[xbo])?([0-9a-z]+)$/.exec(digits) ?? [];
  const own = { '0x': 16, '0b': 2, '0o': 8 }[prefix ?? ''] ?? 10;
  if (base === 10 || rest === '' || (prefix !== undefined && base !== 0 && base !== own)) return numberIn(written);
  const number = Number.parseInt(rest, base === 0 ? own : base);
  return Number.isNaN(number) ? null : sign === '-' ? -number : number;
}

function halfToEven(number: number): number {
  const below = Math.floor(number);
  return number - below === 0.5 ? below + (below % 2 === 0 ? 0 : 1) : Math.round(number);
}

function mapping(args: FilterArguments): (item: RuntimeValue) => RuntimeValue {
  const attribute = args.named.get('attribute');
  if (attribute !== undefined) {
    const otherwise = args.named.get('default') ?? null;
    return (item) => defaultOf(attributeOf(item, attribute, otherwise !== null), otherwise);
  }
  const [name, ...more] = args.positional;
  if (name === undefined) throw new Error('map requires a filter argument');
  return (item) => args.apply(textOf(name), item, more);
}

/** `select`, `reject` and their forms for an attribute. A false value, such as None, gives nothing. */
function chosen(value: RuntimeValue, { positional }: FilterArguments, isWanted: boolean, isOfAttribute = false): RuntimeValue {
  if (!isTrue(value)) return generator([]);
  const [attribute = null] = isOfAttribute ? positional : [];
  if (isOfAttribute && attribute === null) throw new Error('Missing parameter for attribute name');
  const [test = null, ...args] = positional.slice(isOfAttribute ? 1 : 0);
  const isRight = test === null ? isTrue : (one: RuntimeValue) => testOf(textOf(test))(one, args);
  return generator(iterate(value).filter((item) => isRight(attribute === null ? item : attributeOf(item, attribute)) === isWanted));
}

/** `a.b.0` is looked up part by part. */
function attributeOf(item: RuntimeValue, attribute: RuntimeValue, hasDefault = false): RuntimeValue {
  const parts = isText(attribute) ? textOf(attribute).split('.') : [attribute.value as number];
  let value = item;
  for (const part of parts) {
    if (isMissing(value) && hasDefault) return value;
    if (isMissing(value)) throw new Error(`An undefined value has no attribute ${part}`);
    const isIndex = typeof part === 'number' || /^\d+$/.test(part);
    if (isDict(value)) value = entriesOf(value).get(isIndex ? Number(part) : part) ?? missing();
    else value = isList(value) && isIndex ? (itemsOf(value)[Number(part)] ?? missing()) : missing();
  }
  return value;
}

export function pairsOf(value: RuntimeValue): readonly RuntimeValue[] {
  return [...entriesOf(value)].map(([key, inner]) => tuple([keyValue(key), inner]));
}

function dictsort(value: RuntimeValue, args: FilterArguments): RuntimeValue {
  const isCased = argument(args, 0, 'case_sensitive');
  const by = argument(args, 1, 'by');
  if (!isDict(value)) throw new Error(`'${pythonType(value)}' object has no items`);
  const place = by !== null && textOf(by) === 'value' ? 1 : 0;
  const key = (pair: RuntimeValue) => {
    const one = itemsOf(pair)[place]!;
    return isSet(isCased) ? one : folded(one);
  };
  const sign = isSet(argument(args, 2, 'reverse')) ? -1 : 1;
  return list(pairsOf(value).toSorted((a, b) => sign * compare(key(a), key(b))));
}

function folded(value: RuntimeValue): RuntimeValue {
  if (!isText(value)) return value;
  spendText(textOf(value).length);
  return text(textOf(value).toLowerCase());
}
