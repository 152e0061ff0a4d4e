/** Argument parsing shared by the commands built on commander. */
import { type Command, CommanderError } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { EXIT } from './command-line.ts';

/** Columns of every command's help, regardless of the terminal's width. */
const HELP_WIDTH = 80;

/**
 * Parses the arguments into the program. Returns null if the command should run, else the exit code after printing help or version (help goes to
 * stderr if there are no arguments). Throws a one-line ConfigError for wrong arguments.
 */
export function parseProgram(program: Command, argv: readonly string[]): number | null {
  for (const command of [program, ...program.commands]) {
    command
      .configureHelp({ ...command.configureHelp(), helpWidth: HELP_WIDTH })
      .exitOverride()
      .configureOutput({ outputError: () => {} })
      .allowExcessArguments(false);
  }
  if (argv.length === 0) {
    program.outputHelp({ error: true });
    return EXIT.usage;
  }
  try {
    program.parse(argv, { from: 'user' });
    return null;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return EXIT.done;
    throw new ConfigError(`${error.message.replace(/^error: /, '')} (see ${program.name()} --help)`, { cause: error });
  }
}
