/** One option of a command: parses its value from a command line and from a TOML file, and has the texts for help and completion. */
import { settingValue } from '../../core/setting-number.ts';
import { ConfigError } from '../../core/errors.ts';

/** The completions that a shell offers after the option: these words, files, folders, environments or presets of the package, or nothing. */
export type Completion = readonly string[] | 'files' | 'folders' | 'environments' | 'presets' | null;

/** @typeParam D true if a command always has a value: the option has a default or is required */
export interface Option<T = unknown, D extends boolean = boolean> {
  /** A short phrase with its unit. Default and "may be repeated" are added. */
  readonly description: string;
  /** One-letter spelling, without the dash. */
  readonly letter: string | null;
  /** The heading of the help under which it is listed. */
  readonly group: string;
  /** The placeholder for the value in the help; empty for a switch. */
  readonly placeholder: string;
  readonly takes: 'nothing' | 'a value' | 'a value or nothing';
  readonly isRequired: D extends true ? boolean : false;
  /** True if the empty text is a value, not a mistake. */
  readonly mayBeEmpty: boolean;
  /** True if a further occurrence adds to the earlier ones. Otherwise the last one wins. */
  readonly isRepeatable: boolean;
  /** Value of an option that was not given. */
  readonly fallback: T | undefined;
  /** The text of the default in the help; null for none. */
  readonly fallbackText: string | null;
  readonly completion: Completion;
  /** One value of the command line. Null stands for "no value", of an option that may have none. Throws ConfigError. */
  parse(text: string | null, spelling: string, before: T | undefined): T;
  /** A value of a TOML file. Throws ConfigError. */
  check(value: unknown, spelling: string): T;
}

/** Options by name in camelCase: `maxTokens` is `--max-tokens` on a command line and `max_tokens` in a file. */
export type OptionTable = Readonly<Record<string, Option>>;

type ValueOf<O> = O extends Option<infer T> ? T : never;
type AlwaysThere<O> = { [K in keyof O]: O[K] extends Option<unknown, true> ? K : never }[keyof O];

/** The values of a table of options. One without a default is absent if it was not given. */
export type OptionValues<O extends OptionTable> = { readonly [K in AlwaysThere<O>]: ValueOf<O[K]> } & {
  readonly [K in Exclude<keyof O, AlwaysThere<O>>]?: ValueOf<O[K]>;
};

export const DEFAULT_GROUP = 'Options';

/** A table of options under one heading. */
export function table<const O extends OptionTable>(options: O): O {
  return options;
}

type Intersection<U> = (U extends unknown ? (value: U) => void : never) extends (value: infer I) => void ? I : never;
type Merged<G extends Readonly<Record<string, OptionTable>>> = Intersection<G[keyof G]>;

/** One table of options from several, each under its own heading. */
export function groups<const G extends Readonly<Record<string, OptionTable>>>(tables: G): { readonly [K in keyof Merged<G>]: Merged<G>[K] } {
  const entries = Object.entries(tables).flatMap(([group, options]) =>
    Object.entries(options).map(([name, option]) => [name, { ...option, group }] as const),
  );
  return Object.fromEntries(entries) as never;
}

/** `maxTokens` as `--max-tokens`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** `maxTokens` as `max_tokens`, its key in a TOML file. */
export function keyOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The one sentence for a wrong value. `shown` replaces a value that may be secret. */
export function wrongValue(spelling: string, wanted: string, value: unknown, { shown }: { readonly shown?: string } = {}): ConfigError {
  return new ConfigError(`${spelling} must be ${wanted}, got ${shown ?? clipped(settingValue(value))}`);
}

function clipped(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
