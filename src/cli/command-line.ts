/**
 * Runs a command's main function. Errors become one line on stderr and an exit code; Ctrl-C asks the command to stop, a second Ctrl-C ends it; a
 * closed pipe is not an error.
 *
 * Exit codes: 0 done, 1 failed while running, 2 cannot run as asked (flag, argument, file, configuration), 130 interrupted, 143 terminated.
 */
import { getSystemErrorMessage } from 'node:util';
import { CancelledError, ConfigError, firstError, VfError } from '../core/errors.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { escapeControls } from './terminal-text.ts';

export const EXIT = { done: 0, failed: 1, usage: 2, interrupted: 130, terminated: 143 } as const;

export interface CommandContext {
  /** Aborts on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
  /** Values that must never be printed; the command adds to it as it learns them. */
  readonly secrets: Set<string>;
  /** Whether to print stack traces (`-v`). @default false */
  verbose: boolean;
  /** Replaces secrets, and credentials in URLs, with `***`. */
  readonly redact: (text: string) => string;
  /** Writes a line to stderr, redacted. */
  readonly note: (line: string) => void;
  /** Called at the first Ctrl-C, instead of printing the default line. */
  onInterrupt: (() => void) | null;
}

/** Runs `main` with the process's arguments and exits with the code that it returns. */
export async function runCommand(name: string, main: (argv: readonly string[], context: CommandContext) => Promise<number>): Promise<never> {
  const controller = new AbortController();
  const secrets = new Set<string>();
  const redact = (text: string) => redactSecrets(redactUrl(text), [...secrets]);
  const context: CommandContext = {
    signal: controller.signal,
    secrets,
    verbose: false,
    redact,
    note: (line) => void process.stderr.write(`${redact(line)}\n`),
    onInterrupt: null,
  };
  let signalCode: number | null = null;
  const stop = (code: number) => {
    if (signalCode !== null) process.exit(code);
    signalCode = code;
    if (context.onInterrupt) context.onInterrupt();
    else context.note(`${name}: stopping; press Ctrl-C again to stop at once`);
    controller.abort(new CancelledError('Interrupted by the user'));
  };
  process.on('SIGINT', () => stop(EXIT.interrupted));
  process.on('SIGTERM', () => stop(EXIT.terminated));
  for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreClosedPipe);
  const report = (thrown: unknown) => {
    const error = firstError(thrown);
    context.note(`${name}: ${errorLine(error)}`);
    if (context.verbose) context.note(stackTrace(error));
  };
  process.on('uncaughtException', (error) => {
    report(error);
    process.exit(signalCode ?? EXIT.failed);
  });
  let code: number;
  try {
    code = await main(process.argv.slice(2), context);
  } catch (thrown) {
    const error = firstError(thrown);
    const stopped = signalCode !== null && error instanceof CancelledError;
    if (!stopped) report(error);
    code = error instanceof ConfigError ? EXIT.usage : EXIT.failed;
  }
  await Promise.all([process.stdout, process.stderr].map((stream) => new Promise((done) => stream.write('', done))));
  process.exit(signalCode ?? code);
}

/** One line for any error: a VfError's message, the system's text about a file, or the name of a bug. */
export function errorLine(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error));
  if (error instanceof VfError) return oneLine(error.message);
  const { errno, path, code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC') return oneLine(`the disk is full${path === undefined ? '' : ` (${path})`}; free some space and run the command again`);
  if (typeof errno === 'number' && errno < 0) {
    return oneLine(`${getSystemErrorMessage(errno)}${path === undefined ? '' : `: ${path}`} (${code})`);
  }
  return oneLine(`unexpected ${error.name}: ${error.message} (-v shows where; please report it)`);
}

function stackTrace(error: unknown): string {
  const parts: string[] = [];
  for (let e: unknown = error; e instanceof Error && parts.length < 8; e = e.cause) parts.push(e.stack ?? `${e.name}: ${e.message}`);
  return escapeControls(parts.join('\ncaused by '), { lines: true });
}

/** Turns line feeds into spaces and escapes everything else that a terminal would act on. */
function oneLine(text: string): string {
  return escapeControls(text.replace(/\s*[\r\n]\s*/g, ' '));
}

function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_DESTROYED') throw error;
}
