/**
 * Reads Python literals in the trainer's own process: the output of `repr` for plain values, and the notation of people. Expressions, calls and f-strings are no
 * literals. Its results equal those of `eval` in CPython 3.12, but it accepts less. Time is linear in the text, except for decimal integers, whose length is
 * limited.
 */
import { type Literal, type LiteralNumber, LiteralProblem } from './literal.ts';
import { keptEntries, keptItems } from './literals-equal.ts';
import { complexSum, negated, unsignedNumber } from './number-literal.ts';
import { Scanner } from './scanner.ts';
import { textLiteral } from './text-literal.ts';

export type ParsedLiteral = { readonly ok: true; readonly value: Literal } | { readonly ok: false; readonly problem: string };

export interface LiteralOptions {
  /** Longest text, in UTF-16 code units. @default 1048576 */
  readonly maxLength?: number;
}

const MAX_LENGTH = 2 ** 20;
/** Nested brackets, as many as CPython's tokenizer takes. */
const MAX_DEPTH = 200;

/**
 * Reads a literal: numbers, texts, bytes, None, True, False, `...`, tuples (without brackets too), lists, sets, `set()` and dictionaries; `nan` and `inf`
 * count as numbers, since `repr` writes them. Never throws.
 * @example parseLiteral("{'a': (1, 2.5)}")
 */
export function parseLiteral(text: string, { maxLength = MAX_LENGTH }: LiteralOptions = {}): ParsedLiteral {
  if (text.length > maxLength) return { ok: false, problem: `it has ${text.length} characters, more than ${maxLength}` };
  if (text.includes('\0')) return { ok: false, problem: 'it has a NUL character' };
  if (!text.isWellFormed()) return { ok: false, problem: 'it has half of a surrogate pair' };
  try {
    return { ok: true, value: wholeText(new Scanner(text)) };
  } catch (error) {
    if (error instanceof LiteralProblem) return { ok: false, problem: error.message };
    throw error;
  }
}

/** As in Python's `eval`, blanks before the value do not count, nor do blank lines around it; a line must not begin with blanks. */
function wholeText(scanner: Scanner): Literal {
  scanner.skipBlanks();
  scanner.skipBlankLines();
  const first = value(scanner);
  const literal = scanner.peek() === ',' ? { kind: 'tuple' as const, items: bareTuple(scanner, first) } : first;
  scanner.take(/[ \t\f]*(?:#[^\r\n]*)?/y);
  scanner.skipBlankLines();
  scanner.take(/[ \t\f]*(?:#[^\r\n]*)?/y);
  if (!scanner.isAtEnd()) throw scanner.problem('something else');
  return literal;
}

function bareTuple(scanner: Scanner, first: Literal): Literal[] {
  const items = [first];
  while (scanner.takeToken(',')) {
    if (scanner.isAtEnd() || /[\r\n#]/.test(scanner.peek())) break;
    items.push(value(scanner));
  }
  return items;
}

/** A value and the blanks after it. */
function value(scanner: Scanner): Literal {
  const literal = sum(scanner) ?? textLiteral(scanner) ?? bracketed(scanner) ?? named(scanner);
  scanner.skipBlanks();
  return literal;
}

/** A number with its sign, or the sum of a real and an imaginary one; null if none begins here. */
function sum(scanner: Scanner): LiteralNumber | null {
  const left = signed(scanner);
  if (left === null) return null;
  scanner.skipBlanks();
  const sign = scanner.takeToken('+') ? 1 : scanner.takeToken('-') ? -1 : null;
  if (sign === null) return left;
  const right = unsignedNumber(scanner);
  const total = right === null ? null : complexSum(left, right, sign);
  if (total === null) throw scanner.problem('a sum that is not a complex number');
  return total;
}

function signed(scanner: Scanner): LiteralNumber | null {
  const sign = scanner.takeToken('-') ? -1 : scanner.takeToken('+') ? 1 : null;
  const number = unsignedNumber(scanner);
  if (sign !== null && number === null) throw scanner.problem('a sign without a number');
  return number !== null && sign === -1 ? negated(number) : number;
}

function bracketed(scanner: Scanner): Literal | null {
  const opening = scanner.peek();
  if (opening !== '(' && opening !== '[' && opening !== '{') return null;
  if (scanner.depth === MAX_DEPTH) throw scanner.problem(`more than ${MAX_DEPTH} nested brackets`);
  scanner.depth++;
  scanner.takeToken(opening);
  const literal = opening === '(' ? tupleOrValue(scanner) : opening === '[' ? list(scanner) : dictOrSet(scanner);
  scanner.depth--;
  return literal;
}

function tupleOrValue(scanner: Scanner): Literal {
  if (scanner.takeText(')')) return { kind: 'tuple', items: [] };
  const first = value(scanner);
  if (scanner.takeText(')')) return first;
  return { kind: 'tuple', items: [first, ...restOf(scanner, ')', value)] };
}

function list(scanner: Scanner): Literal {
  if (scanner.takeText(']')) return { kind: 'list', items: [] };
  const first = value(scanner);
  return { kind: 'list', items: [first, ...restOf(scanner, ']', value)] };
}

function dictOrSet(scanner: Scanner): Literal {
  if (scanner.takeText('}')) return { kind: 'dict', entries: [] };
  const first = value(scanner);
  if (!scanner.takeToken(':')) return { kind: 'set', items: keptItems([first, ...restOf(scanner, '}', value)]) };
  const entries = [[first, value(scanner)] as const, ...restOf(scanner, '}', entry)];
  return { kind: 'dict', entries: keptEntries(entries) };
}

function entry(scanner: Scanner): readonly [Literal, Literal] {
  const key = value(scanner);
  if (!scanner.takeToken(':')) throw scanner.problem('a key without a value');
  return [key, value(scanner)];
}

/** The items after the first one, up to the closing bracket; the last comma may stand alone. */
function restOf<T>(scanner: Scanner, closing: string, item: (scanner: Scanner) => T): T[] {
  const items: T[] = [];
  while (!scanner.takeText(closing)) {
    if (!scanner.takeToken(',')) throw scanner.problem(`no comma or ${closing}`);
    if (scanner.takeText(closing)) break;
    items.push(item(scanner));
  }
  return items;
}

function named(scanner: Scanner): Literal {
  if (scanner.takeText('...')) return { kind: 'Ellipsis' };
  const name = scanner.takeIdentifier();
  if (name === 'None' || name === 'Ellipsis') return { kind: name };
  if (name === 'True' || name === 'False') return { kind: 'bool', value: name === 'True' };
  if (name === 'set' && isEmptyCall(scanner)) return { kind: 'set', items: [] };
  throw scanner.problem('no literal');
}

function isEmptyCall(scanner: Scanner): boolean {
  scanner.skipBlanks();
  scanner.depth++;
  const isEmpty = scanner.takeToken('(') && scanner.takeText(')');
  scanner.depth--;
  return isEmpty;
}
