/**
 * The kinds of option: each parses a word of the command line, checks a value of a TOML file, and has a placeholder, a default's text, what a shell
 * offers, and the sentence for a wrong value. The dialect is that of `schemas/config-table.ts`: the description first, then the particulars.
 */
import { ConfigError } from '../../core/errors.ts';
import { closestName } from '../../core/closest-name.ts';
import { isRunName, RUN_NAME_TITLE } from '../../schemas/run-name.ts';
import { type Completion, DEFAULT_GROUP, type Option, wrongValue } from './option.ts';

/** The settings of every kind of option. */
export interface Settings<T = unknown> {
  readonly letter?: string;
  readonly placeholder?: string;
  /** Value of an option that was not given; the help shows it. */
  readonly default?: T;
  /** For the help only: the behaviour without the option, if no fixed value describes it. */
  readonly otherwise?: string;
  /** The command refuses to run without the option. @default false */
  readonly required?: boolean;
  readonly completion?: Completion;
}

/** True if a value is always present. */
export type Always<S> = S extends { readonly required: true } ? true : S extends { readonly default: unknown } ? true : false;

interface Kind<T> {
  readonly placeholder: string;
  readonly takes?: Option['takes'];
  readonly isRepeatable?: boolean;
  readonly mayBeEmpty?: boolean;
  readonly completion?: Completion;
  readonly fallbackText?: (value: T) => string;
  readonly parse: Option<T>['parse'];
  readonly check: Option<T>['check'];
}

/** An option of a kind of its own. The kinds below cover what most commands need. */
export function option<T, const S extends Settings<T>>(kind: Kind<T>, description: string, settings: S): Option<T, Always<S>> {
  const { letter = null, otherwise, required = false, default: fallback } = settings;
  const shown = fallback === undefined ? null : (kind.fallbackText ?? String)(fallback);
  return {
    description,
    letter,
    group: DEFAULT_GROUP,
    placeholder: settings.placeholder ?? kind.placeholder,
    takes: kind.takes ?? 'a value',
    isRequired: required as never,
    isRepeatable: kind.isRepeatable ?? false,
    mayBeEmpty: kind.mayBeEmpty ?? false,
    fallback,
    fallbackText: otherwise ?? shown,
    completion: settings.completion ?? kind.completion ?? null,
    parse: kind.parse,
    check: kind.check,
  };
}

interface Range {
  /** Lowest value, inclusive. */
  readonly from?: number;
  /** Lowest value, exclusive. */
  readonly above?: number;
  /** Highest value, inclusive. */
  readonly to?: number;
}

type NumberSettings = Settings<number> &
  Range & {
    /** A value outside the range that is allowed too, and what it means: `{ value: -1, means: 'all' }`. */
    readonly or?: { readonly value: number; readonly means: string };
  };

/** An integer, by default of at least 0. */
export function wholeNumber<const S extends NumberSettings>(description: string, settings: S): Option<number, Always<S>> {
  return numeric('an integer', Number.isSafeInteger, description, { from: 0, ...settings });
}

/** A finite number, by default of any size. */
export function number<const S extends NumberSettings>(description: string, settings: S): Option<number, Always<S>> {
  return numeric('a number', Number.isFinite, description, settings);
}

function numeric<const S extends NumberSettings>(
  what: string,
  isOne: (value: unknown) => boolean,
  description: string,
  settings: S,
): Option<number, Always<S>> {
  const { from = -Infinity, above = -Infinity, to: highest = Infinity, or } = settings as NumberSettings;
  // This bound only keeps integers exact. An error that quotes it would hide the bound that matters.
  const to = highest === Number.MAX_SAFE_INTEGER ? Infinity : highest;
  const wanted = `${from === to ? String(to) : `${what}${rangeText({ from, above, to })}`}${or === undefined ? '' : `, or ${or.value} for ${or.means}`}`;
  const check = (value: unknown, spelling: string): number => {
    if (typeof value === 'number' && isOne(value) && ((value >= from && value > above && value <= to) || value === or?.value)) return value;
    throw wrongValue(spelling, wanted, value);
  };
  const parse = (word: string | null, spelling: string) =>
    check(/^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(word!.trim()) ? Number(word) : word, spelling);
  return option({ placeholder: what === 'an integer' ? 'N' : 'X', parse, check, fallbackText: groupedDigits }, description, settings);
}

function rangeText({ from, above, to }: Required<Range>): string {
  if (above > -Infinity) return to < Infinity ? ` above ${above} and at most ${to}` : ` above ${above}`;
  if (from === -Infinity) return to < Infinity ? ` of at most ${to}` : '';
  return to < Infinity ? ` from ${from} to ${to}` : ` of at least ${from}`;
}

function groupedDigits(value: number): string {
  return Number.isInteger(value) && value >= 10_000 ? value.toLocaleString('en-US') : String(value);
}

/** A switch: true if it was given. */
export function flag<const S extends Pick<Settings, 'letter'>>(description: string, settings: S = {} as S): Option<boolean, false> {
  const check = (value: unknown, spelling: string): boolean => {
    if (typeof value === 'boolean') return value;
    throw wrongValue(spelling, 'true or false', value);
  };
  return option<boolean, Settings<boolean>>({ placeholder: '', takes: 'nothing', parse: () => true, check }, description, settings);
}

/** Text that is not empty. */
export function text<const S extends Settings<string>>(description: string, settings: S = {} as S): Option<string, Always<S>> {
  return option({ placeholder: 'TEXT', parse: (word, spelling) => checkText(word, spelling), check: checkText }, description, settings);
}

/** Text that may be empty, if the empty text has a meaning: `--query-prefix ''`. */
export function anyText<const S extends Settings<string>>(description: string, settings: S = {} as S): Option<string, Always<S>> {
  const check = (value: unknown, spelling: string): string => {
    if (typeof value === 'string') return value;
    throw wrongValue(spelling, 'a string', value);
  };
  return option({ placeholder: 'TEXT', mayBeEmpty: true, parse: (word, spelling) => check(word, spelling), check }, description, settings);
}

/** The name of a run. */
export function runName<const S extends Settings<string>>(description: string, settings: S = {} as S): Option<string, Always<S>> {
  const check = (value: unknown, spelling: string): string => {
    if (typeof value === 'string' && isRunName(value)) return value;
    throw wrongValue(spelling, RUN_NAME_TITLE, value);
  };
  return option({ placeholder: 'NAME', parse: (word, spelling) => check(word, spelling), check }, description, settings);
}

/** Path of a file. The command checks whether it exists. */
export function file<const S extends Settings<string>>(description: string, settings: S = {} as S): Option<string, Always<S>> {
  return option(
    { placeholder: 'FILE', completion: 'files', parse: (word, spelling) => checkText(word, spelling), check: checkText },
    description,
    settings,
  );
}

/** Path of a folder. The command checks whether it exists. */
export function folder<const S extends Settings<string>>(description: string, settings: S = {} as S): Option<string, Always<S>> {
  return option(
    { placeholder: 'DIR', completion: 'folders', parse: (word, spelling) => checkText(word, spelling), check: checkText },
    description,
    settings,
  );
}

/** A folder, or true if the option was given without one; false only in a file. A next word that the command needs as an argument is not taken for the folder. */
export function optionalFolder(description: string, settings: Pick<Settings, 'letter' | 'otherwise'>): Option<string | boolean, false> {
  const check = (value: unknown, spelling: string): string | boolean => {
    if (typeof value === 'boolean' || (typeof value === 'string' && value !== '')) return value;
    throw wrongValue(spelling, 'true, false or a folder', value);
  };
  const parse = (word: string | null, spelling: string) => check(word ?? true, spelling);
  return option<string | boolean, Settings<string | boolean>>(
    { placeholder: 'DIR', takes: 'a value or nothing', completion: 'folders', parse, check },
    description,
    settings,
  );
}

/** Other values that `oneOf` takes, and what they are. */
interface Otherwise {
  readonly or?: { readonly accepts: (word: string) => boolean; readonly means: string };
}

type Chosen<V extends readonly string[], S> = S extends { readonly or: object } ? string : V[number];

/** One of some words. */
export function oneOf<const V extends readonly string[], const S extends Settings<V[number]> & Otherwise>(
  choices: V,
  description: string,
  settings: S = {} as S,
): Option<Chosen<V, S>, Always<S>> {
  const { or }: Otherwise = settings;
  const check = (value: unknown, spelling: string): Chosen<V, S> => {
    // A file may write true for "true".
    const word = typeof value === 'boolean' ? String(value) : value;
    if (typeof word === 'string' && (choices.includes(word) || or?.accepts(word) === true)) return word;
    const near = typeof value === 'string' ? closestName(value, choices) : null;
    const wanted = `${choices.length > 2 ? 'one of ' : ''}${listed(choices)}${or === undefined ? '' : `, or ${or.means}`}`;
    const { message } = wrongValue(spelling, wanted, value);
    throw new ConfigError(near === null ? message : `${message} (did you mean ${near}?)`);
  };
  return option(
    {
      placeholder: choices.join('|').length <= 16 ? choices.join('|') : 'NAME',
      completion: choices,
      parse: (word, spelling) => check(word, spelling),
      check,
    },
    description,
    settings,
  );
}

function listed(choices: readonly string[]): string {
  return choices.length < 2 ? choices.join('') : `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)!}`;
}

/** Texts: one for each time that the option is given, or with `commas` also several in one, such as `a,b`. */
export function texts<const S extends Settings<readonly string[]> & { readonly commas?: true }>(
  description: string,
  settings: S = {} as S,
): Option<readonly string[], Always<S>> {
  const parse = (word: string | null, spelling: string, before: readonly string[] | undefined) => [
    ...(before ?? []),
    ...(settings.commas === true ? splitNames(word!) : [checkText(word, spelling)]),
  ];
  return option<readonly string[], S>({ placeholder: 'TEXT', isRepeatable: true, parse, check: checkTexts }, description, settings);
}

/** Names in one list, such as `a,b`. */
export function names<const S extends Settings<readonly string[]>>(description: string, settings: S = {} as S): Option<readonly string[], Always<S>> {
  const check = (value: unknown, spelling: string) => (typeof value === 'string' ? splitNames(value) : checkTexts(value, spelling));
  return option<readonly string[], S>({ placeholder: 'A,B', parse: (word) => splitNames(word!), check }, description, settings);
}

/** `key=value`, each time that the option is given; the value is not read here. */
export function assignments<const S extends Settings<readonly string[]> & { readonly example: string }>(
  description: string,
  settings: S,
): Option<readonly string[], Always<S>> {
  const parse = (word: string | null, spelling: string, before: readonly string[] | undefined) => {
    const split = word!.indexOf('=');
    const key = word!.slice(0, Math.max(split, 0)).trim();
    if (split > 0 && key.split('.').every((part) => /^[\w-]+$/.test(part))) return [...(before ?? []), word!];
    // The text after the equals sign may be a secret.
    throw wrongValue(spelling, `key=value, such as ${settings.example}`, split < 0 ? word : `${key}=`);
  };
  return option<readonly string[], S>({ placeholder: 'KEY=VALUE', isRepeatable: true, parse, check: checkTexts }, description, settings);
}

function checkText(value: unknown, spelling: string): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw wrongValue(spelling, 'a non-empty string', value);
}

function checkTexts(value: unknown, spelling: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw wrongValue(spelling, 'a list of strings', value);
}

function splitNames(list: string): string[] {
  return list
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}
