/** Values of the Jinja library as Python sees them. The library exports no classes of values, so they are taken from values that it makes. */
import { Environment, Interpreter } from '@huggingface/jinja';
import { spend } from './python-budget.ts';

/** A value of the library: `StringValue` and a string, `ObjectValue` and a Map, ... */
export interface RuntimeValue {
  readonly type: string;
  readonly value: unknown;
  /** Text that `+` does not escape again (markupsafe's Markup). */
  isSafe?: boolean;
  /** A list that Python makes on demand: always true, without a length, and read once. */
  isGenerator?: boolean;
  readonly ['__bool__']: () => { readonly value: boolean };
}

type Make = new (value?: unknown) => RuntimeValue;
/** `args`: positional ones, then all keyword arguments as one value. */
export type RuntimeFunction = (args: readonly RuntimeValue[]) => RuntimeValue;

const classOf = (value: unknown) => new Environment().set('value', value).constructor as unknown as Make;
const [Text, Integer, Float, Flag, None, Undefined, List, Dict, Callable] = ['', 1, 0.5, true, null, undefined, [], {}, () => null].map(classOf) as [
  Make,
  Make,
  Make,
  Make,
  Make,
  Make,
  Make,
  Make,
  Make,
];
const literals = new Interpreter() as unknown as { evaluate(node: object, scope: unknown): object };
const Tuple = literals.evaluate({ type: 'TupleLiteral', value: [] }, new Environment()).constructor as unknown as Make;

export const text = (value: string, isSafe = false): RuntimeValue => (isSafe ? Object.assign(new Text(value), { isSafe }) : new Text(value));
export const integer = (value: number): RuntimeValue => new Integer(value);
export const float = (value: number): RuntimeValue => new Float(value);
export const flag = (value: boolean): RuntimeValue => new Flag(value);
export const list = (items: readonly RuntimeValue[]): RuntimeValue => new List(items);
export const tuple = (items: readonly RuntimeValue[]): RuntimeValue => new Tuple(items);
export const dict = (entries: ReadonlyMap<Key, RuntimeValue>): RuntimeValue => new Dict(entries);
export const callable = (call: RuntimeFunction): RuntimeValue => new Callable(call);
export const none = (): RuntimeValue => new None(null);
export const missing = (): RuntimeValue => new Undefined();

export function generator(items: readonly RuntimeValue[]): RuntimeValue {
  return Object.assign(list([...items]), { isGenerator: true, __bool__: () => ({ value: true }) });
}

/** A key of a dictionary: text, or an integer, which is another key than its text. */
export type Key = string | number;
export type Entries = ReadonlyMap<Key, RuntimeValue>;

export const isText = (value: RuntimeValue) => value.type === 'StringValue';
export const isMissing = (value: RuntimeValue) => value.type === 'UndefinedValue';
export const isNone = (value: RuntimeValue) => value.type === 'NullValue';
export const isList = (value: RuntimeValue) => value.type === 'ArrayValue' || value.type === 'TupleValue';
export const isDict = (value: RuntimeValue) => value.type === 'ObjectValue';
export const isTrue = (value: RuntimeValue) => value['__bool__']().value;
export const textOf = (value: RuntimeValue) => value.value as string;
export const itemsOf = (value: RuntimeValue) => value.value as readonly RuntimeValue[];
export const entriesOf = (value: RuntimeValue) => value.value as Entries;
export const keyValue = (key: Key) => (typeof key === 'number' ? integer(key) : text(key));

/** The number that a value is in arithmetic; null if it is none. */
export function numberOf(value: RuntimeValue): number | null {
  if (value.type === 'BooleanValue') return Number(value.value);
  return value.type === 'IntegerValue' || value.type === 'FloatValue' ? (value.value as number) : null;
}

/** The key that a value is in a dictionary; null if it can be none. */
export function keyOf(value: RuntimeValue): Key | null {
  return isText(value) ? textOf(value) : numberOf(value);
}

/** Iterates as a for loop of Python does; a second time, a generator has nothing left. Throws for a value that cannot be iterated. */
export function iterate(value: RuntimeValue): readonly RuntimeValue[] {
  if (value.isGenerator === true) return (value.value as RuntimeValue[]).splice(0);
  if (isList(value)) {
    // Most callers only count or copy the items, which is cheap.
    spend(itemsOf(value).length / 256);
    return itemsOf(value);
  }
  if (isMissing(value)) return [];
  if (isText(value)) spend(textOf(value).length);
  if (isText(value)) return Array.from(textOf(value), (character) => text(character));
  if (isDict(value)) spend(entriesOf(value).size);
  if (isDict(value)) return [...entriesOf(value).keys()].map(keyValue);
  throw new Error(`'${pythonType(value)}' object is not iterable`);
}

const NAMES: Readonly<Record<string, string>> = {
  StringValue: 'str',
  IntegerValue: 'int',
  FloatValue: 'float',
  BooleanValue: 'bool',
  NullValue: 'NoneType',
  ArrayValue: 'list',
  TupleValue: 'tuple',
  ObjectValue: 'dict',
  UndefinedValue: 'Undefined',
};

/** Python's name of the value's class. */
export function pythonType(value: RuntimeValue): string {
  return value.isGenerator === true ? 'generator' : (NAMES[value.type] ?? value.type);
}
