import { isObject } from '../schemas/is-object.ts';
import { kindOrNumber } from '../schemas/kind-of.ts';
import { suggestion } from './closest-name.ts';
import { ConfigError } from './errors.ts';
import { LONGEST_TIMER_MS } from './timers.ts';

type Kind =
  | 'any'
  | 'flag'
  | 'text'
  | 'texts'
  | 'textOrTexts'
  | 'textOrFlag'
  | 'count'
  | 'number'
  | 'amount'
  | 'timeout'
  | 'table'
  | 'textTable'
  | 'function'
  | 'signal';

const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isText = (value: unknown): boolean => typeof value === 'string';
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const isNumber = (value: unknown): boolean => typeof value === 'number' && !Number.isNaN(value);
const isTable = (value: unknown): value is object => isObject(value) && !Array.isArray(value);

/** What an option of each kind takes. */
const KINDS: Readonly<Record<Kind, { readonly takes: string; readonly matches: (value: unknown) => boolean }>> = {
  // It is checked where it is used.
  any: { takes: 'anything', matches: () => true },
  flag: { takes: 'true or false', matches: isFlag },
  text: { takes: 'a string', matches: isText },
  texts: { takes: 'a list of strings', matches: isTexts },
  textOrTexts: { takes: 'a string or a list of strings', matches: (value) => isText(value) || isTexts(value) },
  textOrFlag: { takes: 'a string, true or false', matches: (value) => isText(value) || isFlag(value) },
  count: { takes: 'a whole number from 0 up', matches: (value) => Number.isSafeInteger(value) && (value as number) >= 0 },
  number: { takes: 'a number', matches: isNumber },
  amount: { takes: 'a number from 0 up', matches: (value) => isNumber(value) && (value as number) >= 0 },
  timeout: {
    takes: `a number of milliseconds above 0 and at most ${LONGEST_TIMER_MS}`,
    matches: (value) => isNumber(value) && (value as number) > 0 && (value as number) <= LONGEST_TIMER_MS,
  },
  table: { takes: 'an object', matches: isTable },
  textTable: { takes: 'an object whose values are strings', matches: (value) => isTable(value) && Object.values(value).every(isText) },
  function: { takes: 'a function', matches: (value) => typeof value === 'function' },
  signal: { takes: 'an AbortSignal', matches: (value) => isObject(value) && 'aborted' in value },
};

/** The kind of each option; one that is left out may also be undefined. */
export type OptionKinds<T extends object> = Readonly<Record<keyof T & string, Kind>>;

/** Throws ConfigError unless `options` is an object without unknown keys, each of its kind. `name` is what takes them: `evaluate`, `policy`. */
export function checkOptions<T extends object>(name: string, options: T, kinds: OptionKinds<T>): void {
  const given: unknown = options;
  const known = Object.keys(kinds);
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new ConfigError(`${name} must be given an object, got ${JSON.stringify(given)}. It has the options ${known.join(', ')}.`);
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(kinds, key))
      throw new ConfigError(`${name} has no option ${key}${suggestion(key, known)}. Leave it out; it has ${known.join(', ')}.`);
    const { takes, matches } = KINDS[kinds[key as keyof T & string]];
    if (value !== undefined && !matches(value)) throw new ConfigError(`${name} takes ${takes} as ${key}, got ${kindOrNumber(value)}`);
  }
}
