/** Runs a declared command: prints its help or version, or parses its words and calls its `run`. */
import { styleText } from 'node:util';
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { durationText } from '../../reports/text/number-text.ts';
import { type TransportSettings, transportSettings, withTransport } from '../../transport/transport-settings.ts';
import { watchLoop } from '../loop-watch.ts';
import { asksForStacks, type CommandContext, EXIT, runCommand } from '../command-line.ts';
import { type AnyCommand, type Command, type CommandGroup, type Invocation, ownName } from './define-command.ts';
import { flagOf } from './option.ts';
import { asksFor, parseWords, UnknownFlagError } from './parse-words.ts';

/** Runs the command with the process's arguments and ends the process with its exit code. */
export async function runDefined(command: AnyCommand): Promise<never> {
  const main = (words: readonly string[], context: CommandContext) => runWords(command, words, context, watchLoop);
  return runCommand(command.name, main, { hasVerbose: hasVerbose(command) });
}

function hasVerbose(command: AnyCommand): boolean {
  return 'commands' in command ? command.commands.some(hasVerbose) : 'verbose' in command.options;
}

/** Throws ConfigError for a mistake of the command line. Resolves to the exit code. `onRun` is called unless only help or the version is printed. */
export async function runWords(
  command: AnyCommand,
  words: readonly string[],
  context: CommandContext,
  onRun: () => void = () => {},
): Promise<number> {
  if ('commands' in command) return runOneOf(command, words, context, onRun);
  // Set before parsing, so that -v also shows the stack of a parsing error.
  context.verbose = 'verbose' in command.options && asksForStacks(words);
  if (words.length === 0 && needsWords(command)) return printHelp(command, EXIT.usage);
  const asked = asksFor(command, words);
  if (asked === 'version') return printVersion();
  if (asked === 'help') return printHelp(command, EXIT.done, { plain: words.includes('--plain') });
  onRun();
  const invocation: Invocation = { ...(await parsed(command, words)), context };
  return withTransport(transportOf(command, invocation), async () => {
    try {
      return (await command.run(invocation as never)) ?? EXIT.done;
    } finally {
      // The summary of an evaluation says it itself.
      const { totalMs } = transportSettings().waits;
      if (totalMs >= SHOWN_WAIT_MS) context.note(`${command.name}: waited ${durationText(totalMs / 1000)} for rate limits`);
    }
  });
}

const SHOWN_WAIT_MS = 1000;

/** The settings of all requests of the command, by its option --max-wait. */
function transportOf({ options: table }: Command, { options }: Invocation): Partial<TransportSettings> {
  const { maxWait } = options as { readonly maxWait?: number };
  const limit = ['maxConcurrent', 'maxScoring', 'concurrency'].find((name) => name in table);
  const letter = limit === undefined ? null : table[limit]!.letter;
  const maxConcurrent = limit === undefined ? 'the number of requests at once' : letter === null ? flagOf(limit) : `-${letter}`;
  return { ...(maxWait !== undefined && { maxWaitMs: maxWait * 1000 }), names: { maxWait: '--max-wait', maxConcurrent } };
}

async function runOneOf(group: CommandGroup, words: readonly string[], context: CommandContext, onRun: () => void): Promise<number> {
  const [first, ...rest] = words;
  if (first === undefined) return printHelp(group, EXIT.usage);
  if (first === '-h' || first === '--help') return printHelp(group, EXIT.done);
  if (first === '-V' || first === '--version') return printVersion();
  if (first === 'help') return runOneOf(group, [...rest, '--help'], context, onRun);
  const command = group.commands.find((candidate) => ownName(candidate) === first || candidate.name === first);
  if (command !== undefined) return runWords(command, rest, context, onRun);
  if (group.commands.some((candidate) => hasFlag(candidate, first)))
    throw new ConfigError(`Name a command before ${first}: ${group.commands.map(ownName).join(', ')}`);
  if (first.trim() === '') throw new ConfigError(`<command> is empty; ${group.name} --help lists the commands`);
  const what = first.startsWith('-') ? 'flag' : 'command';
  const known = what === 'flag' ? ['--help', '--version'] : group.commands.map(ownName);
  throw new ConfigError(`Unknown ${what} ${first}${suggestion(first, known)}; ${group.name} --help lists them all`);
}

function hasFlag(command: AnyCommand, flag: string): boolean {
  if ('commands' in command) return command.commands.some((inner) => hasFlag(inner, flag));
  return Object.entries(command.options).some(([name, { letter }]) => flag === flagOf(name) || (letter !== null && flag === `-${letter}`));
}

async function parsed(command: Command, words: readonly string[]) {
  try {
    return parseWords(command, words);
  } catch (error) {
    const better = error instanceof UnknownFlagError ? await command.explainUnknown?.(error.unknown) : null;
    throw better === null || better === undefined ? error : new ConfigError(better, { cause: error });
  }
}

function needsWords({ needsWords: isSaid, arguments: table, options }: Command): boolean {
  return isSaid ?? [...Object.values(table), ...Object.values(options)].some(({ isRequired }) => isRequired);
}

async function printHelp(command: AnyCommand, code: number, { plain = false } = {}): Promise<number> {
  const { renderHelp } = await import('./render-help.ts');
  const stream = code === EXIT.done ? process.stdout : process.stderr;
  const isStyled = !plain && code === EXIT.done;
  stream.write(renderHelp(command, (heading) => (isStyled ? styleText('bold', heading, { stream }) : heading)));
  return code;
}

async function printVersion(): Promise<number> {
  const { packageVersion } = await import('../../data/package-root.ts');
  process.stdout.write(`${packageVersion()}\n`);
  return EXIT.done;
}
