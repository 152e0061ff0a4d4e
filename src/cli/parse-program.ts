/** What the commands built on commander share: one way to read arguments, one way to refuse them. */
import { type Command, CommanderError } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { EXIT } from './command-line.ts';

/** Columns of the help of every command, whatever the terminal has. */
const HELP_WIDTH = 80;

/**
 * Reads the arguments into the program. Null when the command is to run, else the exit code of what was printed instead (help, version; help
 * on stderr where there is no argument at all). Throws ConfigError, one line, when the arguments are wrong.
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
    throw new ConfigError(`${error.message.replace(/^error: /, '')} (${program.name()} --help shows how)`, { cause: error });
  }
}
