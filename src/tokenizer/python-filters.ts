/** Jinja's filters and tests as Python's Jinja has them, where the library lacks them, knows fewer types, or answers as JavaScript does. */
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
  type Key,
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
import { pythonText } from './python-values.ts';

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
  first: (value) => iterate(value)[0] ?? missing(),
  last: (value) => {
    if (value.isGenerator === true) throw new Error("'generator' object is not reversible");
    return iterate(value).at(-1) ?? missing();
  },
  join,
  reverse: (value) => (isText(value) ? text(Array.from(textOf(value)).toReversed().join('')) : generator([...iterate(value)].toReversed())),
  unique: (value) => {
    const found: RuntimeValue[] = [];
    for (const item of iterate(value)) if (!found.some((known) => isEqual(folded(known), folded(item)))) found.push(item);
    return generator(found);
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
  min: (value) =>
    iterate(value).reduce<RuntimeValue | null>((least, item) => (least === null || compare(item, least) < 0 ? item : least), null) ?? missing(),
  max: (value) =>
    iterate(value).reduce<RuntimeValue | null>((most, item) => (most === null || compare(item, most) > 0 ? item : most), null) ?? missing(),
  int: (value, args) => {
    if (isMissing(value)) throw new Error('An undefined value is no number');
    const number = isText(value) ? numberIn(textOf(value)) : numberOf(value);
    return number === null ? (argument(args, 0, 'default') ?? integer(0)) : integer(Math.trunc(number));
  },
  float: (value, args) => {
    if (isMissing(value)) throw new Error('An undefined value is no number');
    const number = isText(value) ? numberIn(textOf(value)) : numberOf(value);
    return number === null ? (argument(args, 0, 'default') ?? float(0)) : float(number);
  },
  sum: (value, args) => {
    const attribute = argument(args, 0, 'attribute');
    const items = iterate(value).map((item) => (attribute === null ? item : attributeOf(item, attribute)));
    return items.reduce((total, item) => binary('+', total, item), argument(args, 1, 'start') ?? integer(0));
  },
  format: (value, { positional }) => binary('%', text(pythonText(value)), tuple(positional)),
  round: (value, args) => {
    const number = numberOf(value);
    if (number === null) throw new Error(`type ${pythonType(value)} doesn't define __round__ method`);
    const scale = 10 ** (numberOf(argument(args, 0, 'precision') ?? integer(0)) ?? 0);
    const method = argument(args, 1, 'method');
    const way = method === null || textOf(method) === 'common' ? halfToEven : textOf(method) === 'ceil' ? Math.ceil : Math.floor;
    return float(way(number * scale) / scale);
  },
  default: defaulted,
  d: defaulted,
  safe: (value) => text(pythonText(value), true),
  e: escape,
  escape,
};

/** Filters of text that take any value as text. */
export const OF_TEXT: ReadonlySet<string> = new Set(['upper', 'lower', 'title', 'capitalize', 'replace', 'indent']);

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
  return /^[-+]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed.replaceAll('_', '')) : null;
}

function halfToEven(number: number): number {
  const below = Math.floor(number);
  return number - below === 0.5 ? below + (below % 2 === 0 ? 0 : 1) : Math.round(number);
}

function mapping(args: FilterArguments): (item: RuntimeValue) => RuntimeValue {
  const attribute = args.named.get('attribute');
  if (attribute !== undefined) {
    const otherwise = args.named.get('default') ?? null;
    return (item) => {
      const found = attributeOf(item, attribute);
      return isMissing(found) && otherwise !== null ? otherwise : found;
    };
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
function attributeOf(item: RuntimeValue, attribute: RuntimeValue): RuntimeValue {
  const parts = isText(attribute) ? textOf(attribute).split('.') : [attribute.value as number];
  let value = item;
  for (const part of parts) {
    if (isMissing(value)) throw new Error(`An undefined value has no attribute ${part}`);
    const isIndex = typeof part === 'number' || /^\d+$/.test(part);
    if (isDict(value)) value = entriesOf(value).get(isIndex ? Number(part) : part) ?? missing();
    else value = isList(value) && isIndex ? (itemsOf(value)[Number(part)] ?? missing()) : missing();
  }
  return value;
}

function pairsOf(value: RuntimeValue): readonly RuntimeValue[] {
  return [...entriesOf(value)].map(([key, inner]) => tuple([keyValue(key), inner]));
}

function dictsort(value: RuntimeValue, args: FilterArguments): RuntimeValue {
  const isCased = argument(args, 0, 'case_sensitive');
  const by = argument(args, 1, 'by');
  const isReversed = argument(args, 2, 'reverse');
  if (!isDict(value)) throw new Error(`'${pythonType(value)}' object has no items`);
  const place = by !== null && textOf(by) === 'value' ? 1 : 0;
  const key = (pair: RuntimeValue) => {
    const one = itemsOf(pair)[place]!;
    return isCased !== null && isTrue(isCased) ? one : folded(one);
  };
  const sign = isReversed !== null && isTrue(isReversed) ? -1 : 1;
  return list(pairsOf(value).toSorted((a, b) => sign * compare(key(a), key(b))));
}

function folded(value: RuntimeValue): RuntimeValue {
  return isText(value) ? text(textOf(value).toLowerCase()) : value;
}

type Test = (value: RuntimeValue, args: readonly RuntimeValue[]) => boolean;

const isNumber: Test = (value) => numberOf(value) !== null;
const isWhole: Test = (value) => value.type === 'IntegerValue';
const equal: Test = (value, [other = missing()]) => isEqual(value, other);
const ordered =
  (isRight: (order: number) => boolean): Test =>
  (value, [other = missing()]) =>
    isRight(compare(value, other));
const remainder = (value: RuntimeValue, divisor: number) => {
  const number = numberOf(value);
  if (number === null) throw new Error(`unsupported operand type(s) for %: '${pythonType(value)}' and 'int'`);
  return number - divisor * Math.floor(number / divisor);
};

const TESTS: Readonly<Record<string, Test>> = {
  defined: (value) => !isMissing(value),
  undefined: isMissing,
  none: isNone,
  string: isText,
  number: isNumber,
  integer: isWhole,
  float: (value) => value.type === 'FloatValue',
  boolean: (value) => value.type === 'BooleanValue',
  true: (value) => value.value === true,
  false: (value) => value.value === false,
  mapping: isDict,
  sequence: (value) => value.isGenerator !== true && (isText(value) || isList(value) || isDict(value) || isMissing(value)),
  iterable: (value) => isText(value) || isList(value) || isDict(value) || isMissing(value),
  callable: (value) => value.type === 'FunctionValue',
  odd: (value) => remainder(value, 2) === 1,
  even: (value) => remainder(value, 2) === 0,
  divisibleby: (value, [by = integer(1)]) => remainder(value, numberOf(by) ?? 1) === 0,
  lower: (value) => /\p{Ll}/u.test(pythonText(value)) && !/\p{Lu}/u.test(pythonText(value)),
  upper: (value) => /\p{Lu}/u.test(pythonText(value)) && !/\p{Ll}/u.test(pythonText(value)),
  in: (value, [container = missing()]) => iterate(container).some((item) => isEqual(item, value)),
  eq: equal,
  equalto: equal,
  '==': equal,
  sameas: (value, [other = missing()]) => value.type === other.type && value.value === other.value,
  ne: (value, args) => !equal(value, args),
  '!=': (value, args) => !equal(value, args),
  '<': ordered((order) => order < 0),
  '<=': ordered((order) => order <= 0),
  '>': ordered((order) => order > 0),
  '>=': ordered((order) => order >= 0),
  lt: ordered((order) => order < 0),
  lessthan: ordered((order) => order < 0),
  le: ordered((order) => order <= 0),
  gt: ordered((order) => order > 0),
  greaterthan: ordered((order) => order > 0),
  ge: ordered((order) => order >= 0),
};

export function testOf(name: string): Test {
  const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
  if (test === undefined) throw new Error(`No test named '${name}'.`);
  return test;
}

/** A dictionary with the methods of Python's, which hide keys of their names: `properties.items()` where a property is called "items". */
export function dictMethod(value: RuntimeValue, name: string): ((args: readonly RuntimeValue[]) => RuntimeValue) | null {
  const entries = entriesOf(value);
  switch (name) {
    case 'items':
      return () => list(pairsOf(value));
    case 'keys':
      return () => list([...entries.keys()].map(keyValue));
    case 'values':
      return () => list([...entries.values()]);
    case 'copy':
      return () => dict(new Map(entries));
    case 'get':
      return ([key = missing(), otherwise]) => entries.get((isText(key) ? textOf(key) : numberOf(key)) as Key) ?? otherwise ?? none();
    default:
      return null;
  }
}
