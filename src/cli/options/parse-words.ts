/** Parses a command line after a command's declaration. Every mistake is one sentence, the same for every command. */
import { parseArgs } from 'node:util';
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { type ArgumentTable, argumentText, type Command, type Parsed, type UnknownFlag } from './define-command.ts';
import { flagOf, type Option, type OptionTable } from './option.ts';

/** A flag that the command does not have. `runWords` asks the command for a better sentence. */
export class UnknownFlagError extends ConfigError {
  readonly unknown: UnknownFlag;

  constructor(message: string, unknown: UnknownFlag) {
    super(message);
    this.unknown = unknown;
  }
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number];
type OptionToken = Extract<Token, { kind: 'option' }>;

/** `--help` and `--version` count in every position, even if other words are wrong. */
export function asksFor(command: Command, words: readonly string[]): 'help' | 'version' | null {
  const tokens = tokensOf(command, words);
  const asked = tokens.find((token) => token.kind === 'option' && (BUILT_IN as readonly string[]).includes(token.name)) as OptionToken | undefined;
  return (asked?.name as 'help' | 'version' | undefined) ?? null;
}

const BUILT_IN = ['help', 'version'] as const;

/** Throws a one-line ConfigError for a mistake. */
export function parseWords<O extends OptionTable, A extends ArgumentTable>(command: Command<O, A>, words: readonly string[]): Parsed<O, A> {
  const byFlag = new Map(Object.entries(command.options).map(([name, option]) => [flagOf(name).slice(2), { name, option }]));
  const tokens = tokensOf(command, words);
  const values: Record<string, unknown> = {};
  const given = new Map<string, string>();
  const places = new Map<string, Set<number>>();
  const positionals: string[] = [];
  const used = new Set<number>();
  const needed = Object.values(command.arguments).filter(({ isRequired }) => isRequired).length;
  const positionalCount = () => tokens.filter((token) => token.kind === 'positional' && !used.has(token.index)).length;
  for (const [i, token] of tokens.entries()) {
    if (token.kind === 'positional' && !used.has(token.index)) positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, option } = byFlag.get(token.name) ?? refuseUnknown(command, token, { words, tokens });
    let value = token.value ?? null;
    const next = tokens[i + 1];
    const isNext = next?.kind === 'positional' && next.index === token.index + 1;
    // A word that the command needs as an argument is not the value of an option that may have none.
    if (option.takes === 'a value or nothing' && value === null && isNext && positionalCount() > needed) {
      value = next.value;
      used.add(next.index);
    }
    values[name] = parsedValue(command, { option, token, value, before: option.isRepeatable ? values[name] : undefined });
    given.delete(name);
    given.set(name, token.rawName);
    if (words[token.index]!.replace(/=.*$/s, '') === token.rawName) {
      const taken = [token.index, ...(value !== null && token.inlineValue !== true ? [token.index + 1] : [])];
      places.set(name, new Set([...(places.get(name) ?? []), ...taken]));
    }
  }
  assertWhole(command, given, positionals);
  for (const [name, { fallback }] of Object.entries(command.options)) if (fallback !== undefined) values[name] ??= fallback;
  return {
    arguments: argumentsOf(command, positionals) as never,
    options: values as never,
    given,
    words,
    wordsWithout: (name) => words.filter((_, i) => places.get(name)?.has(i) !== true),
  };
}

function tokensOf({ options }: Pick<Command, 'options'>, words: readonly string[]): readonly Token[] {
  const declared = Object.entries(options).map(([name, { takes, letter }]) => {
    const type = takes === 'a value' ? 'string' : 'boolean';
    return [flagOf(name).slice(2), { type, multiple: true, ...(letter === null ? {} : { short: letter }) }] as const;
  });
  const builtIn = { help: { type: 'boolean', multiple: true, short: 'h' }, version: { type: 'boolean', multiple: true, short: 'V' } } as const;
  // Not strict: Node's own errors name no remedy, and it would refuse `-n -1`.
  return parseArgs({
    args: [...words],
    options: { ...builtIn, ...Object.fromEntries(declared) },
    tokens: true,
    strict: false,
    allowPositionals: true,
  }).tokens;
}

interface Given {
  readonly option: Option;
  readonly token: OptionToken;
  readonly value: string | null;
  /** Value of earlier occurrences. */
  readonly before: unknown;
}

function parsedValue({ options }: Pick<Command, 'options'>, { option, token, value, before }: Given): unknown {
  const { rawName } = token;
  if (option.takes === 'nothing') {
    if (value !== null) throw new ConfigError(`${rawName} takes no value, got ${JSON.stringify(value)}`);
    return option.parse(null, rawName, before);
  }
  const isMissing = value === null || (value.trim() === '' && !option.mayBeEmpty) || (token.inlineValue !== true && isFlagOf(options, value));
  if (option.takes === 'a value' && isMissing) throw new ConfigError(`${rawName} needs a value: ${option.description}`);
  if (option.takes === 'a value or nothing' && value?.trim() === '') throw new ConfigError(`${rawName} has an empty value: ${option.description}`);
  return option.parse(value, rawName, before);
}

/** Tells whether a word is a flag of the command, and so probably not the value of the flag before it. */
function isFlagOf(options: OptionTable, word: string): boolean {
  if (!/^-(-|\w$)/.test(word)) return false;
  return Object.entries(options).some(([name, { letter }]) => word === flagOf(name) || word === `-${letter}`);
}

interface Line {
  readonly words: readonly string[];
  readonly tokens: readonly Token[];
}

function refuseUnknown(command: Pick<Command, 'name' | 'options'>, token: OptionToken, { words, tokens }: Line): never {
  const { rawName: flag, index } = token;
  const known = [...Object.keys(command.options).map(flagOf), '--help', '--version'];
  const letters = Object.values(command.options).map(({ letter }) => `--${letter}`);
  const near = letters.includes(flag) ? ` (did you mean ${flag.slice(1)}?)` : flag.startsWith('--') ? suggestion(flag, known) : '';
  const next = words[index + 1];
  const positionals = tokens.flatMap((other) => (other.kind === 'positional' ? other.value : []));
  const value = token.value ?? (next === undefined || next.startsWith('--') ? null : next);
  throw new UnknownFlagError(`Unknown flag ${flag}${near}; ${command.name} --help lists them all`, { flag, value, positionals });
}

function assertWhole<O extends OptionTable, A extends ArgumentTable>(
  { name: command, arguments: table, options, conflicts = [] }: Command<O, A>,
  given: ReadonlyMap<string, string>,
  positionals: readonly string[],
): void {
  const entries = Object.entries(table);
  const isOpen = entries.some(([, { isMany }]) => isMany);
  if (!isOpen && positionals.length > entries.length) {
    const takes =
      entries.length === 0 ? 'no argument' : `${entries.length === 1 ? 'one argument' : `${entries.length} arguments`}, ${argumentTexts(table)}`;
    throw new ConfigError(`${command} takes ${takes}, got ${positionals.length}: ${positionals.join(' ')}`);
  }
  const empty = positionals.findIndex((word) => word.trim() === '');
  // An unset variable of the shell must not mean this folder.
  const unsaid = empty < 0 ? undefined : entries[Math.min(empty, entries.length - 1)];
  if (unsaid !== undefined) throw new ConfigError(`${argumentText(...unsaid)} is empty: ${unsaid[1].description}; ${command} --help shows more`);
  const missing = entries.filter(([, { isRequired }]) => isRequired)[positionals.length];
  if (missing !== undefined) throw new ConfigError(`${argumentText(...missing)} is missing: ${missing[1].description}; ${command} --help shows more`);
  for (const [name, { isRequired, letter, description }] of Object.entries(options)) {
    if (!isRequired || given.has(name)) continue;
    throw new ConfigError(`${letter === null ? flagOf(name) : `-${letter}`} is missing: ${description}; ${command} --help shows more`);
  }
  for (const group of conflicts) {
    const [first, second] = group.filter((name) => given.has(name));
    if (second !== undefined) throw new ConfigError(`${given.get(first!)!} and ${given.get(second)!} exclude each other; leave one out`);
  }
}

function argumentTexts(table: ArgumentTable): string {
  return Object.entries(table)
    .map(([key, argument]) => argumentText(key, argument))
    .join(' ');
}

function argumentsOf({ arguments: table }: Pick<Command, 'arguments'>, positionals: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(table).map(([key, { isMany }], i) => [key, isMany ? positionals.slice(i) : positionals[i]]));
}
