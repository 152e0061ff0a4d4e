/**
 * Python's `==` between literals. Numbers are compared exactly across types (`1 == 1.0 == True`, and `2 ** 53 + 1 != 2.0 ** 53`), sets and dictionaries without
 * order. NaN equals nothing. In a container Python treats an object as equal to itself, even NaN; two literals never share an object, so a container with
 * a NaN equals nothing either.
 */
import { type Literal, type LiteralNumber, LiteralProblem } from './literal.ts';

/** True if `a == b` in Python. */
export function literalsEqual(a: Literal, b: Literal): boolean {
  if (isNumber(a)) return isNumber(b) && numbersEqual(a, b);
  switch (a.kind) {
    case 'str':
    case 'bytes':
      return b.kind === a.kind && a.key === b.key;
    case 'tuple':
    case 'list':
      return b.kind === a.kind && a.items.length === b.items.length && a.items.every((item, i) => literalsEqual(item, b.items[i]!));
    case 'set':
      return b.kind === 'set' && setsEqual(a.items, b.items);
    case 'dict':
      return b.kind === 'dict' && dictsEqual(a.entries, b.entries);
    default:
      return b.kind === a.kind;
  }
}

function isNumber(value: Literal): value is LiteralNumber {
  return value.kind === 'bool' || value.kind === 'int' || value.kind === 'float' || value.kind === 'complex';
}

function numbersEqual(a: LiteralNumber, b: LiteralNumber): boolean {
  const key = numberKey(a);
  return key !== null && key === numberKey(b);
}

function setsEqual(a: readonly Literal[], b: readonly Literal[]): boolean {
  if (a.length !== b.length) return false;
  const keys = new Set(a.map(hashKey));
  return b.every((item) => keys.has(hashKey(item) ?? NO_KEY));
}

type Entry = readonly [key: Literal, value: Literal];

function dictsEqual(a: readonly Entry[], b: readonly Entry[]): boolean {
  if (a.length !== b.length) return false;
  const values = new Map(a.map(([key, value]) => [hashKey(key), value]));
  return b.every(([key, value]) => {
    const other = values.get(hashKey(key) ?? NO_KEY);
    return other !== undefined && literalsEqual(other, value);
  });
}

/** No key is like this. */
const NO_KEY = '';

/** Without the items that equal an earlier one. Throws LiteralProblem for an item that has no hash. */
export function keptItems(items: readonly Literal[]): Literal[] {
  return keptEntries(items.map((item) => [item, item] as const)).map(([item]) => item);
}

/** Each key once: the first of equal keys, with the last value. Throws LiteralProblem for a key that has no hash. */
export function keptEntries(entries: readonly Entry[]): Entry[] {
  const kept = new Map<string, Entry>();
  for (const [i, [key, value]] of entries.entries()) {
    const hash = hashKey(key) ?? `NaN ${i}`;
    kept.set(hash, [kept.get(hash)?.[0] ?? key, value]);
  }
  return [...kept.values()];
}

/** Returns the same text for values that are equal and have a hash, and another for all others; null if they contain a NaN. Throws LiteralProblem without a hash. */
function hashKey(value: Literal): string | null {
  if (isNumber(value)) return numberKey(value);
  switch (value.kind) {
    case 'str':
    case 'bytes':
      return `${value.kind} ${value.key}`;
    case 'tuple': {
      const keys = value.items.map(hashKey);
      return keys.includes(null) ? null : `tuple ${keys.map((key) => `${key!.length} ${key}`).join('')}`;
    }
    case 'None':
    case 'Ellipsis':
      return value.kind;
    default:
      throw new LiteralProblem(`it has a ${value.kind} where a value with a hash must be`);
  }
}

function numberKey(number: LiteralNumber): string | null {
  if (number.kind === 'bool') return integerKey(number.value ? 1n : 0n);
  if (number.kind === 'int') return integerKey(number.value);
  if (number.kind === 'float') return floatKey(number.value);
  const [real, imaginary] = [floatKey(number.real), floatKey(number.imaginary)];
  if (real === null || imaginary === null) return null;
  return number.imaginary === 0 ? real : `complex ${real} ${imaginary}`;
}

/** In hexadecimal, which takes linear time. */
function integerKey(value: bigint): string {
  return `number ${value.toString(16)}`;
}

function floatKey(value: number): string | null {
  if (Number.isNaN(value)) return null;
  return Number.isInteger(value) ? integerKey(BigInt(value)) : `number ${value}`;
}
