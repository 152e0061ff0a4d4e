/** Reads Python's numbers: integers of any size, floats, imaginary numbers and their sums, signs, and `nan` and `inf` as `repr` writes them. */
import type { LiteralNumber } from './literal.ts';
import type { Scanner } from './scanner.ts';

const DIGITS = '[0-9](?:_?[0-9])*';
const IMAGINARY = new RegExp(`(?:(?:${DIGITS})?\\.${DIGITS}|${DIGITS}\\.?)(?:[eE][-+]?${DIGITS})?[jJ]`, 'y');
const FLOAT = new RegExp(`(?:${DIGITS})?\\.${DIGITS}(?:[eE][-+]?${DIGITS})?|${DIGITS}\\.(?:[eE][-+]?${DIGITS})?|${DIGITS}[eE][-+]?${DIGITS}`, 'y');
const BASED = /0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+)/y;
const INTEGER = new RegExp(DIGITS, 'y');
const AFTER_NUMBER = /[\p{ID_Continue}.]/uy;
const NAMED = /(?:nan|inf)j?(?![\p{ID_Continue}])/uy;
/** CPython reads no longer decimal integer: `sys.int_info.default_max_str_digits`. */
const MAX_DIGITS = 4300;

/** The number that begins here, without a sign; null if none begins here. Throws LiteralProblem. */
export function unsignedNumber(scanner: Scanner): LiteralNumber | null {
  const named = scanner.take(NAMED);
  if (named !== null) return namedNumber(named);
  const number = writtenNumber(scanner);
  if (number !== null && scanner.take(AFTER_NUMBER) !== null) throw scanner.problem('a number that goes on as something else');
  return number;
}

function namedNumber(name: string): LiteralNumber {
  const value = name.startsWith('nan') ? NaN : Infinity;
  return name.endsWith('j') ? { kind: 'complex', real: 0, imaginary: value } : { kind: 'float', value };
}

function writtenNumber(scanner: Scanner): LiteralNumber | null {
  const imaginary = scanner.take(IMAGINARY);
  if (imaginary !== null) return { kind: 'complex', real: 0, imaginary: floatOf(imaginary.slice(0, -1)) };
  const float = scanner.take(FLOAT);
  if (float !== null) return { kind: 'float', value: floatOf(float) };
  const based = scanner.take(BASED);
  if (based !== null) return { kind: 'int', value: BigInt(based.replaceAll('_', '')) };
  const integer = scanner.take(INTEGER)?.replaceAll('_', '');
  if (integer === undefined) return null;
  if (integer.length > MAX_DIGITS) throw scanner.problem(`an integer of more than ${MAX_DIGITS} digits`);
  if (/^0+[1-9]/.test(integer)) throw scanner.problem('an integer with a leading zero');
  return { kind: 'int', value: BigInt(integer) };
}

function floatOf(text: string): number {
  return Number(text.replaceAll('_', ''));
}

/** A negative sign. `-0` is an integer, and `-0j` has two negative zeros, as in Python. */
export function negated(number: LiteralNumber): LiteralNumber {
  if (number.kind === 'int') return { kind: 'int', value: -number.value };
  if (number.kind === 'float') return { kind: 'float', value: -number.value };
  if (number.kind === 'complex') return { kind: 'complex', real: -number.real, imaginary: -number.imaginary };
  return { kind: 'int', value: number.value ? -1n : 0n };
}

/** `real ± imaginary`, the form of a complex number's repr; null if the two are of other kinds or Python's sum overflows. */
export function complexSum(left: LiteralNumber, right: LiteralNumber, sign: 1 | -1): LiteralNumber | null {
  if ((left.kind !== 'int' && left.kind !== 'float') || right.kind !== 'complex') return null;
  const real = Number(left.value);
  if (left.kind === 'int' && !Number.isFinite(real)) return null;
  // Python adds them like this: the real number has an imaginary part of 0.0, and 0.0 - 0.0 is 0.0.
  return { kind: 'complex', real: real + sign * right.real, imaginary: 0 + sign * right.imaginary };
}
