/** Python's operators over values of the Jinja library, which compares and adds as JavaScript does: `"1" == 1`, `"a" + []`, lists by identity. */
import { spend, spendText } from './python-budget.ts';
import { percentFormatted } from './python-format.ts';
import { pythonText } from './python-values.ts';
import {
  entriesOf,
  flag,
  float,
  integer,
  isDict,
  isList,
  isMissing,
  isText,
  itemsOf,
  iterate,
  keyOf,
  list,
  numberOf,
  pythonType,
  type RuntimeValue,
  text,
  textOf,
  tuple,
} from './python-runtime.ts';

/** Throws what Python refuses: operands of unfit types, undefined ones, division by zero. */
export function binary(operator: string, left: RuntimeValue, right: RuntimeValue): RuntimeValue {
  if (operator === '==' || operator === '!=') return flag(isEqual(left, right) === (operator === '=='));
  if (operator === 'in' || operator === 'not in') return flag(contains(right, left) === (operator === 'in'));
  if (operator === '~') return text(pythonText(left) + pythonText(right));
  if (isMissing(left) || isMissing(right)) throw new Error(`Cannot perform operation ${operator} on undefined values`);
  if (operator === '+') return sum(left, right);
  if (operator === '<' || operator === '<=' || operator === '>' || operator === '>=') {
    const order = compare(left, right, operator);
    return flag(operator === '<' ? order < 0 : operator === '<=' ? order <= 0 : operator === '>' ? order > 0 : order >= 0);
  }
  return arithmetic(operator, left, right) ?? unfit(operator, left, right);
}

export function isEqual(left: RuntimeValue, right: RuntimeValue): boolean {
  spend();
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== null || b !== null) return a === b;
  if (left.type !== right.type) return false;
  if (isMissing(left)) return true;
  if (isList(left)) {
    const [ours, theirs] = [itemsOf(left), itemsOf(right)];
    return ours.length === theirs.length && ours.every((item, i) => isEqual(item, theirs[i]!));
  }
  if (!isDict(left)) return left.value === right.value;
  const [ours, theirs] = [entriesOf(left), entriesOf(right)];
  return ours.size === theirs.size && [...ours].every(([key, value]) => theirs.has(key) && isEqual(value, theirs.get(key)!));
}

function contains(container: RuntimeValue, value: RuntimeValue): boolean {
  if (isMissing(container)) return false;
  if (isList(container)) return iterate(container).some((item) => isEqual(item, value));
  if (isText(container)) {
    if (!isText(value)) throw new Error(`'in <string>' requires string as left operand, not ${pythonType(value)}`);
    return textOf(container).includes(textOf(value));
  }
  if (!isDict(container)) throw new Error(`argument of type '${pythonType(container)}' is not iterable`);
  if (isList(value) || isDict(value)) throw new Error(`unhashable type: '${pythonType(value)}'`);
  const key = keyOf(value);
  return key !== null && entriesOf(container).has(key);
}

function sum(left: RuntimeValue, right: RuntimeValue): RuntimeValue {
  if (isText(left) && isText(right)) {
    const isSafe = left.isSafe === true || right.isSafe === true;
    const part = (one: RuntimeValue) => (isSafe && one.isSafe !== true ? escaped(textOf(one)) : textOf(one));
    return text(part(left) + part(right), isSafe);
  }
  if (isList(left) && left.type === right.type) {
    spend(itemsOf(left).length + itemsOf(right).length);
    return (left.type === 'TupleValue' ? tuple : list)([...itemsOf(left), ...itemsOf(right)]);
  }
  const total = arithmetic('+', left, right);
  if (total !== null) return total;
  throw new Error(
    isText(left)
      ? `can only concatenate str (not "${pythonType(right)}") to str`
      : `unsupported operand type(s) for +: '${pythonType(left)}' and '${pythonType(right)}'`,
  );
}

/** As markupsafe escapes the other operand of text that is safe. */
export function escaped(plain: string): string {
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', "'": '&#39;', '"': '&#34;' };
  return plain.replaceAll(/[&<>'"]/g, (character) => entities[character]!);
}

/** Negative, 0 or positive. Throws for values that Python does not order. */
export function compare(left: RuntimeValue, right: RuntimeValue, operator = '<'): number {
  spend();
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== null && b !== null) return a - b;
  if (isText(left) && isText(right)) return compareTexts(textOf(left), textOf(right));
  if (isList(left) && left.type === right.type) {
    const [ours, theirs] = [itemsOf(left), itemsOf(right)];
    const at = ours.findIndex((item, i) => i >= theirs.length || !isEqual(item, theirs[i]!));
    return at < 0 || at >= theirs.length ? ours.length - theirs.length : compare(ours[at]!, theirs[at]!, operator);
  }
  throw new Error(`'${operator}' not supported between instances of '${pythonType(left)}' and '${pythonType(right)}'`);
}

/** By code points, not by the units of UTF-16. */
function compareTexts(left: string, right: string): number {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  spendText(at);
  return (left.codePointAt(at) ?? -1) - (right.codePointAt(at) ?? -1);
}

/** Null for operands that are not numbers. */
function arithmetic(operator: string, left: RuntimeValue, right: RuntimeValue): RuntimeValue | null {
  if (operator === '%' && isText(left)) return text(percentFormatted(textOf(left), right));
  const [a, b] = [numberOf(left), numberOf(right)];
  if (operator === '*' && (a === null) !== (b === null)) return repeated(a === null ? left : right, a ?? b!);
  if (a === null || b === null) return null;
  const isFloat = left.type === 'FloatValue' || right.type === 'FloatValue';
  const number = isFloat ? float : integer;
  if ((operator === '/' || operator === '//' || operator === '%') && b === 0) throw new Error('division by zero');
  switch (operator) {
    case '+':
      return number(a + b);
    case '-':
      return number(a - b);
    case '*':
      return number(a * b);
    case '/':
      return float(a / b);
    case '//':
      return number(Math.floor(a / b));
    case '%':
      return number(a - b * Math.floor(a / b));
    case '**':
      return (isFloat || b < 0 ? float : integer)(a ** b);
    default:
      return null;
  }
}

function repeated(value: RuntimeValue, count: number): RuntimeValue | null {
  if (!Number.isInteger(count)) return null;
  if (isText(value)) return text(textOf(value).repeat(Math.max(0, count)));
  if (!isList(value)) return null;
  spend(Math.max(0, count) * (itemsOf(value).length + 1));
  return list(Array.from({ length: Math.max(0, count) }, () => itemsOf(value)).flat());
}

function unfit(operator: string, left: RuntimeValue, right: RuntimeValue): never {
  throw new Error(`unsupported operand type(s) for ${operator}: '${pythonType(left)}' and '${pythonType(right)}'`);
}
