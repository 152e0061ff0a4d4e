/** Jinja's tests (`is ...`) as Python's Jinja has them. */
import { compare, isEqual } from './python-operators.ts';
import { integer, isDict, isList, isMissing, isNone, isText, iterate, missing, numberOf, pythonType, type RuntimeValue } from './python-runtime.ts';
import { pythonText } from './python-values.ts';

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
