/** Checks the arguments of an environment, in snake_case or camelCase, against a table of their kinds. */
import { suggestion } from './closest-name.ts';
import { ConfigError } from './errors.ts';

/** The values that an argument accepts. */
export interface ArgumentKind<T> {
  /** Completes "must be". */
  readonly expected: string;
  accepts(value: unknown): value is T;
}

/**
 * Any text but the empty one.
 * @example readArguments('my-env', { corpus: textArgument }, args).corpus // string | undefined
 */
export const textArgument: ArgumentKind<string> = { expected: 'a non-empty string', accepts: (v): v is string => typeof v === 'string' && v !== '' };
/** Any finite number. */
export const numberArgument: ArgumentKind<number> = { expected: 'a finite number', accepts: (v): v is number => Number.isFinite(v) };
/** true or false. */
export const flagArgument: ArgumentKind<boolean> = { expected: 'true or false', accepts: (v): v is boolean => typeof v === 'boolean' };

/**
 * An integer from `least` up.
 * @example readArguments('my-env', { topk: integerArgument(1) }, { topk: 0 }) // ConfigError: topk must be an integer of at least 1, got 0
 */
export function integerArgument(least: number): ArgumentKind<number> {
  return { expected: `an integer of at least ${least}`, accepts: (v): v is number => Number.isSafeInteger(v) && (v as number) >= least };
}

/**
 * One of several texts.
 * @example readArguments('my-env', { split: choiceArgument('easy', 'hard') }, args).split // 'easy' | 'hard' | undefined
 */
export function choiceArgument<const T extends string>(...choices: readonly T[]): ArgumentKind<T> {
  return { expected: choices.map((c) => `"${c}"`).join(' or '), accepts: (v): v is T => (choices as readonly unknown[]).includes(v) };
}

/** Thrown for an argument that an environment does not have. */
export class UnknownArgumentError extends ConfigError {
  /** Names of the arguments that it has. */
  readonly known: readonly string[];

  constructor(message: string, known: readonly string[]) {
    super(message);
    this.known = known;
  }
}

/** The values of a table of kinds, each of its own type. */
export type ArgumentValues<K> = { readonly [N in keyof K]?: K[N] extends ArgumentKind<infer T> ? T : never };

/**
 * The checked arguments by their names in snake_case. Null and undefined count as missing. Throws ConfigError for an unknown name, with the known ones, an
 * unusable value, and two different values of one argument.
 * @param id of the environment, for messages
 * @param aliases other names of arguments. @default none
 * @example readArguments('my-env', { topk: integerArgument(1) }, { topK: 5 }) // { topk: 5 } with the alias { top_k: 'topk' }
 */
export function readArguments<const K extends Readonly<Record<string, ArgumentKind<unknown>>>>(
  id: string,
  kinds: K,
  args: Readonly<Record<string, unknown>>,
  aliases: Readonly<Record<string, keyof K & string>> = {},
): ArgumentValues<K> {
  const given: Record<string, unknown> = {};
  const known = [...Object.keys(kinds), ...Object.keys(aliases)];
  for (const [key, value] of Object.entries(args)) {
    const snake = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const name = Object.hasOwn(aliases, snake) ? aliases[snake]! : snake;
    if (!Object.hasOwn(kinds, name))
      throw new UnknownArgumentError(`${id} has no argument "${key}"${suggestion(name, known)}. Its arguments are ${known.join(', ')}.`, known);
    if (value === null || value === undefined) continue;
    const kind: ArgumentKind<unknown> = kinds[name]!;
    if (!kind.accepts(value))
      throw new ConfigError(`${key} must be ${kind.expected}, got ${typeof value === 'number' ? value : JSON.stringify(value)}`);
    if (given[name] !== undefined && given[name] !== value)
      throw new ConfigError(`${name} has two values, ${JSON.stringify(given[name])} and ${JSON.stringify(value)}. Set it only once.`);
    given[name] = value;
  }
  return given as ArgumentValues<K>;
}
