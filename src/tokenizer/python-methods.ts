/** Methods of Python's dictionaries and lists that leave them as they are; others are refused, as in the sandbox of transformers. */
import { spend } from './python-budget.ts';
import { pairsOf } from './python-filters.ts';
import { isEqual } from './python-operators.ts';
import {
  dict,
  type Entries,
  entriesOf,
  iterate,
  keyOf,
  integer,
  isText,
  type Key,
  keyValue,
  list,
  missing,
  none,
  numberOf,
  type RuntimeFunction,
  type RuntimeValue,
  textOf,
} from './python-runtime.ts';

/** What takes the longer the larger the dictionary is. */
const LISTING: ReadonlySet<string> = new Set(['items', 'keys', 'values', 'copy']);

/** A dictionary with the methods of Python's, which hide keys of their names: `properties.items()` where a property is called "items". */
export function dictMethod(value: RuntimeValue, name: string): ((args: readonly RuntimeValue[]) => RuntimeValue) | null {
  const entries = entriesOf(value);
  if (LISTING.has(name)) spend(entries.size);
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

export function listMethod(items: readonly RuntimeValue[], name: 'index' | 'count' | 'copy'): RuntimeFunction {
  return ([value = missing()]) => {
    spend(items.length / 16);
    if (name === 'copy') return list(items);
    if (name === 'count') return integer(items.filter((item) => isEqual(item, value)).length);
    const at = items.findIndex((item) => isEqual(item, value));
    if (at < 0) throw new Error('The value is not in list');
    return integer(at);
  };
}

/** `dict(a=1)`, `dict({'a': 1}, b=2)`, `dict([('a', 1)])`. */
export const dictOf: RuntimeFunction = (args) => {
  const entries = new Map<Key, RuntimeValue>();
  for (const given of args) {
    const pairs =
      given.value instanceof Map ? [...(given.value as Entries)].map(([key, value]) => [keyValue(key), value]) : iterate(given).map(iterate);
    spend(pairs.length);
    for (const [key = missing(), value = missing()] of pairs) entries.set(keyOf(key)!, value);
  }
  return dict(entries);
};
