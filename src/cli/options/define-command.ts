/**
 * A command is declared once: `defineCommand` names its arguments and options, and from that come the parser, `--help`, the type of the values, the keys of a TOML
 * file, `docs/commands.md`, shell completion, and one sentence for each kind of mistake.
 *
 * How to write a command:
 * 1. `src/cli/commands/vf-NAME.ts` exports `vfName = defineCommand({ … })`. It imports nothing heavy, because `--help` loads it: `run` imports the work.
 * 2. Options come from the kinds in `kinds.ts` (`wholeNumber`, `number`, `flag`, `text`, `anyText`, `file`, `folder`, `optionalFolder`, `oneOf`, `names`, `texts`, `assignments`) and
 *    `table-kinds.ts` (`object`, `numbers`, `headers`, `roles`). The name `maxTokens` is `--max-tokens` on the command line and `max_tokens` in a file. `options: table({ … })` puts
 *    all of them under one heading, `groups({ Policy: { … }, Results: { … } })` under several. A `default` is applied and shown; `otherwise` is shown only.
 *    An option without a default is absent from `options` if it was not given. `--help`, `--version` and, for an option `verbose`, stack traces are added automatically.
 * 3. Arguments come from `argument`, `optionalArgument`, `severalArguments` and `optionalArguments` below, in order.
 * 4. `conflicts` lists options that exclude each other. What only the command can check, `run` checks and throws as a ConfigError (exit code 2).
 * 5. Several commands under one name: `defineCommands({ name: 'vf-serve', commands: [servePolicy, …] })`, where each has its whole name, `vf-serve policy`.
 * 6. `src/cli/vf-NAME.ts` is `await runDefined(vfName);`, and `all-commands.ts` lists the command.
 *
 * @example
 * export const vfCount = defineCommand({
 *   name: 'vf-count',
 *   summary: 'Counts the rows of a file.',
 *   arguments: { file: argument('one row per line', { completion: 'files' }) },
 *   options: table({ limit: wholeNumber('rows to count at most', { letter: 'n', from: 1, default: 100 }), json: flag('print one JSON object') }),
 *   examples: [['vf-count rows.jsonl -n 5', 'counts to five']],
 *   run: async ({ arguments: { file }, options: { limit, json = false }, context }) =>
 *     (await import('../count/count-rows.ts')).countRows({ file, limit, json }, context),
 * });
 */
import type { CommandContext } from '../command-line.ts';
import type { Completion, OptionTable, OptionValues } from './option.ts';

/** @typeParam T type of its value */
export interface Argument<T = unknown> {
  readonly description: string;
  /** The name in the help. Default: its key in the table. */
  readonly label: string | null;
  readonly isRequired: boolean;
  /** True if it takes all further words; only the last argument may. */
  readonly isMany: boolean;
  readonly completion: Completion;
  /** Carries the type only. */
  readonly value?: T;
}

interface ArgumentSettings {
  readonly label?: string;
  readonly completion?: Completion;
}

export function argument(description: string, { label, completion }: ArgumentSettings = {}): Argument<string> {
  return { description, label: label ?? null, isRequired: true, isMany: false, completion: completion ?? null };
}

export function optionalArgument(description: string, settings: ArgumentSettings = {}): Argument<string | undefined> {
  return { ...argument(description, settings), isRequired: false };
}

/** One or more words. */
export function severalArguments(description: string, { label, completion }: ArgumentSettings = {}): Argument<readonly string[]> {
  return { description, label: label ?? null, isRequired: true, isMany: true, completion: completion ?? null };
}

/** Any number of words, none among them. */
export function optionalArguments(description: string, settings: ArgumentSettings = {}): Argument<readonly string[]> {
  return { ...severalArguments(description, settings), isRequired: false };
}

export type ArgumentTable = Readonly<Record<string, Argument>>;
type NoArguments = Readonly<Record<string, never>>;
type ArgumentValues<A extends ArgumentTable> = { readonly [K in keyof A]: A[K] extends Argument<infer T> ? T : never };

/** A parsed command line. */
export interface Parsed<O extends OptionTable = OptionTable, A extends ArgumentTable = ArgumentTable> {
  readonly arguments: ArgumentValues<A>;
  /** Defaults are filled in. */
  readonly options: OptionValues<O>;
  /** The options that were given, each once, in order, with the spelling of the last occurrence: `-n` or `--num-examples`. */
  readonly given: ReadonlyMap<keyof O & string, string>;
  readonly words: readonly string[];
  /** The words without those of an option. A word that also holds other one-letter options stays. */
  readonly wordsWithout: (name: keyof O & string) => readonly string[];
}

export interface Invocation<O extends OptionTable = OptionTable, A extends ArgumentTable = ArgumentTable> extends Parsed<O, A> {
  readonly context: CommandContext;
}

/** A flag that the command does not have. */
export interface UnknownFlag {
  /** The flag as it was written: `--max-turns`. */
  readonly flag: string;
  /** Its value, or the word after it; null if there is none. */
  readonly value: string | null;
  /** The words that are neither flags nor their values, such as the environment. */
  readonly positionals: readonly string[];
}

export interface CommandDeclaration<O extends OptionTable, A extends ArgumentTable> {
  /** `vf-eval`, or `vf-serve policy` for one of several. */
  readonly name: string;
  /** One sentence. */
  readonly summary: string;
  /** Lines of usage. @default one line from the arguments */
  readonly usage?: readonly string[];
  /** @default none */
  readonly arguments?: A;
  readonly options: O;
  /** Options that exclude each other. */
  readonly conflicts?: readonly (readonly (keyof O & string)[])[];
  /** Commands, each with its effect. */
  readonly examples?: readonly (readonly [command: string, does: string])[];
  /** Text after the options, in lines of at most 80 columns, or a function that makes it. */
  readonly notes?: string | (() => string);
  /** True if a command line without words is a question for help. @default if an argument or option is required */
  readonly needsWords?: boolean;
  /** A better sentence for a flag that the command does not have; null for the usual one. */
  explainUnknown?(unknown: UnknownFlag): string | null | Promise<string | null>;
  /** Returns the exit code; nothing is that of a command that is done. */
  run(invocation: Invocation<O, A>): Promise<number | void>;
}

/** A declared command. Its `run` takes the values of its own tables, which a list of commands does not know. */
export interface Command<O extends OptionTable = OptionTable, A extends ArgumentTable = ArgumentTable> extends Omit<
  CommandDeclaration<O, A>,
  'run' | 'conflicts'
> {
  readonly arguments: A;
  readonly conflicts?: readonly (readonly string[])[];
  run(invocation: never): Promise<number | void>;
}

/** Several commands under one name. */
export interface CommandGroup {
  readonly name: string;
  readonly summary: string;
  readonly commands: readonly AnyCommand[];
  readonly notes?: string;
}

export type AnyCommand = Command | CommandGroup;

export function defineCommand<const O extends OptionTable, const A extends ArgumentTable = NoArguments>(
  declaration: CommandDeclaration<O, A>,
): Command<O, A> {
  return { ...declaration, arguments: declaration.arguments ?? ({} as A) };
}

export function defineCommands(group: CommandGroup): CommandGroup {
  return group;
}

/** The commands that have options: the command itself, or those below it. */
export function leafCommands(command: AnyCommand): readonly Command[] {
  return 'commands' in command ? command.commands.flatMap(leafCommands) : [command];
}

/** The last part of the name of one of several commands: `policy` of `vf-serve policy`, `eval` of `vf-eval`. */
export function ownName({ name }: Pick<Command, 'name'>): string {
  return name.split(' ').at(-1)!.replace(/^vf-/, '');
}

/** `<run directory...>` */
export function argumentText(key: string, { label, isRequired, isMany }: Argument): string {
  const name = `${label ?? key}${isMany ? '...' : ''}`;
  return isRequired ? `<${name}>` : `[${name}]`;
}
