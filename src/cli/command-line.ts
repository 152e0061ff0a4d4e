/**
 * Runs a command's main function. Errors become one line on stderr and an exit code; Ctrl-C asks the command to stop, a second Ctrl-C ends it; a
 * closed pipe is not an error.
 *
 * Exit codes: 0 done, 1 failed while running, 2 cannot run as asked (flag, argument, file, configuration), 3 stopped at the ceiling of its cost, 129 its terminal
 * closed, 130 interrupted, 143 terminated.
 */
import { CancelledError, ConfigError, errorMessage, firstError, stackTrace, VfError } from '../core/errors.ts';
import { countText } from '../core/count-text.ts';
import { isDiskFull } from '../files/disk-full.ts';
import { errnoText } from '../files/errno-text.ts';
import { unmarked } from '../transport/quotes.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { withTransport } from '../transport/transport-settings.ts';
import { WaitMeter } from '../transport/wait-meter.ts';
import { escapeControls, printable } from '../reports/text/terminal-text.ts';
import { onOneLine } from '../schemas/on-one-line.ts';
import { UncaughtRefusals } from './uncaught-refusals.ts';
import { expectEnd, uncaughtFault, watchEnd } from './unexpected-end.ts';
import { unprintedText } from './unprinted-text.ts';

export const EXIT = { done: 0, failed: 1, usage: 2, costReached: 3, hungUp: 129, interrupted: 130, terminated: 143 } as const;

/**
 * The message that a command sends over IPC to a command that it runs, to pass a stop on. A signal would look like a second Ctrl-C, because a terminal sends the
 * first to both.
 */
export const STOP_MESSAGE = 'stop';

/**
 * Set for a command that `vf-rounds run` started. Such a command does not print how to continue it, because that would continue this step alone; `vf-rounds run`
 * prints its own command.
 */
export const UNDER_ROUNDS = 'VF_UNDER_ROUNDS';

export function isUnderRounds(): boolean {
  return (process.env[UNDER_ROUNDS] ?? '') !== '';
}

export interface CommandContext {
  /** Aborts on Ctrl-C, SIGTERM, and SIGHUP unless it is ignored, as under nohup. */
  readonly signal: AbortSignal;
  /** Values that must never be printed; the command adds to it as it learns them. */
  readonly secrets: Set<string>;
  /** Prints stack traces (`-v`). @default false */
  verbose: boolean;
  /** Prints the error as one line, plus its stack and causes if `verbose`. */
  readonly report: (error: unknown) => void;
  /** Replaces secrets, and credentials in URLs, with `***`. */
  readonly redact: (text: string) => string;
  /** Environment variables. */
  readonly variables: NodeJS.ProcessEnv;
  /** Writes a line to stderr that begins with the command's name, redacted. */
  readonly warn: (line: string) => void;
  /** Writes a line to stderr, redacted. */
  readonly note: (line: string) => void;
  /** Writes a line while the command shows its progress. @default as `note` */
  aside?: ((line: string) => void) | null;
  /** Called at the first Ctrl-C, instead of printing the default line. */
  onInterrupt: (() => void) | null;
  /** Called when code of the user's throws where nothing catches it, instead of printing the error; the command is stopped as by Ctrl-C. @default null */
  onUncaught?: (() => void) | null;
  /** The command that continues the run that is open, or prints its results again. @default null: there is none, and the same command is run again */
  continueWith?: string | null;
  /** Ctrl-C is the ordinary end of the command, which then exits with the code that it returns. @default false */
  interruptIsEnd?: boolean;
  /** Where the results lie once all that the command was asked for is done, except to print them: a signal then changes no exit code. @default null */
  saved?: string | null;
}

/** Runs `main` with the process's arguments and exits with the code that it returns. `hasVerbose`: true if the command takes `-v`. */
export async function runCommand(
  name: string,
  main: (argv: readonly string[], context: CommandContext) => Promise<number>,
  { hasVerbose = false }: { readonly hasVerbose?: boolean } = {},
): Promise<never> {
  const controller = new AbortController();
  const secrets = new Set<string>();
  const redact = (text: string) => redactSecrets(redactUrl(text), [...secrets]);
  const context: CommandContext = {
    signal: controller.signal,
    secrets,
    verbose: false,
    redact,
    variables: process.env,
    warn: (line) => context.note(`${name}: ${line}`),
    note: (line) => void process.stderr.write(`${printable(redact(unmarked(line)))}\n`),
    report: (error) => {
      context.note(`${name}: ${errorLine(error, { hasVerbose, continueWith: context.continueWith ?? null })}`);
      const stack = context.verbose ? stackTrace(error) : null;
      if (stack !== null) context.note(escapeControls(stack, { lines: true }));
    },
    onInterrupt: null,
  };
  let stopped: Stop | null = null;
  let fault: VfError | null = null;
  const stop = (by: Stop) => {
    const before = stopped;
    if (before !== null && !before.isPassedOn) {
      if (!by.isPassedOn) void endNow(by);
      return;
    }
    stopped = by;
    if (fault !== null) void endNow(by);
    if (before !== null || fault !== null) return;
    if (context.onInterrupt) context.onInterrupt();
    else context.note(`${name}: stopping; press Ctrl-C again to stop at once`);
    controller.abort(new CancelledError('Interrupted by the user'));
  };
  process.on('SIGINT', () => stop({ signal: 'SIGINT', code: EXIT.interrupted, isPassedOn: false }));
  process.on('SIGTERM', () => stop({ signal: 'SIGTERM', code: EXIT.terminated, isPassedOn: false }));
  // A shell and the kernel both send it when a terminal closes. Node forgets that nohup had it ignored.
  const isKept = /(^|\/)nohup$/.test(process.env['_'] ?? '');
  process.on('SIGHUP', () => void (isKept || stop({ signal: 'SIGHUP', code: EXIT.hungUp, isPassedOn: true })));
  onMessageOfParent((message) => {
    if (message === STOP_MESSAGE) stop({ signal: 'SIGTERM', code: EXIT.terminated, isPassedOn: true });
  });
  if (process.env['npm_lifecycle_event'] === 'npx') onParentGone(() => stop({ signal: 'SIGTERM', code: EXIT.terminated, isPassedOn: true }));
  // What this command starts was not started by npx.
  delete process.env['npm_lifecycle_event'];
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (isClosedReader(error, stream.isTTY)) return;
      context.note(`${name}: ${unprintedText(error, stream === process.stdout ? 'stdout' : 'stderr', context)}`);
      exit(EXIT.failed);
    });
  }
  const refusals = new UncaughtRefusals();
  const uncaught = (error: unknown) => {
    const refused = refusals.add(error);
    if (refused !== null) {
      if (refused !== '' && stopped === null) (context.aside ?? context.note)(`${name}: ${oneLine(refused)}`);
      return;
    }
    const found = stopped === null ? uncaughtFault(error) : null;
    if (found === null) {
      context.report(firstError(error));
      exit(stopped?.code ?? EXIT.failed);
      return;
    }
    if (fault !== null) return;
    fault = found;
    if (context.onUncaught) context.onUncaught();
    else context.report(found);
    controller.abort(new CancelledError('Stopped by an error that nothing caught', { cause: found }));
    // Code that the error left behind may never answer.
    setTimeout(() => {
      context.report(found);
      exit(EXIT.failed);
    }, WIND_DOWN_MS).unref();
  };
  process.on('uncaughtException', uncaught);
  // Where nobody listens, OpenAI's Agents SDK ends the process.
  process.on('unhandledRejection', uncaught);
  watchEnd(EXIT.failed, (how) => {
    const { continueWith = null } = context;
    const allowing = continueWith?.includes(' --allow-changes') === true ? '' : ' --allow-changes';
    const advice = continueWith === null ? 'run the command again' : `continue this run with ${continueWith}${allowing}`;
    context.note(`${name}: ${how}. Correct the code, then ${advice}`);
  });
  let code: number;
  try {
    code = await withTransport({ variables: process.env, waits: new WaitMeter() }, () => main(process.argv.slice(2), context));
  } catch (thrown) {
    const error = firstError(thrown);
    if (error !== fault && ((stopped === null && fault === null) || !(error instanceof CancelledError))) context.report(error);
    code = error instanceof ConfigError ? EXIT.usage : EXIT.failed;
  }
  if (refusals.total !== null && stopped === null) context.warn(refusals.total);
  await Promise.all([process.stdout, process.stderr].map(written));
  // Handlers set both, which the compiler does not see.
  if ((fault as VfError | null) !== null && code === EXIT.done) code = EXIT.failed;
  const by = stopped as Stop | null;
  return by === null || (context.saved ?? null) !== null || (context.interruptIsEnd === true && by.signal === 'SIGINT') ? exit(code) : endNow(by);
}

/** Waits until all is written, or its error is heard. */
async function written(stream: NodeJS.WriteStream): Promise<void> {
  await new Promise((done) => setImmediate(done));
  // An empty write fails on a full device, too.
  if (stream.writableLength > 0) await new Promise((done) => stream.write('', done));
}

/** The signal that asked the command to stop, and the matching exit code. */
interface Stop {
  readonly signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP';
  readonly code: number;
  /** True if the command that runs this one requested it, or a terminal that closed. The first signal after it may be the same one. */
  readonly isPassedOn: boolean;
}

/** Does nothing if no parent has opened a channel; does not keep the process alive. */
function onMessageOfParent(listener: (message: unknown) => void): void {
  if (process.channel === undefined) return;
  process.on('message', listener);
  process.channel.unref();
}

/** Saving a large checkpoint takes a while. */
const WIND_DOWN_MS = 120_000;

const PARENT_EVERY_MS = 500;

/** npx passes a signal to its shell alone, which ends and leaves the command behind. Does not keep the process alive. */
function onParentGone(listener: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    listener();
  }, PARENT_EVERY_MS).unref();
}

/** The time that operations on files may take to finish before the process ends without them. */
const JOIN_GRACE_MS = 500;

/**
 * Ends the process, even if it waits for something. exit() joins the threads that work on files, and never returns while one of them waits inside open(), for example on a file
 * system that hangs. The signal's own default action waits for no thread.
 */
async function endNow({ signal, code }: Stop): Promise<never> {
  const waitUntil = performance.now() + JOIN_GRACE_MS;
  while (isJoined() && performance.now() < waitUntil) await new Promise((done) => setTimeout(done, 5));
  if (!isJoined()) return exit(code);
  expectEnd();
  process.emit('exit', code);
  giveUpSignals();
  process.kill(process.pid, signal);
  return new Promise(() => {});
}

/** Tells whether exit() would wait for a thread: for one that works on a file or looks up a name. */
function isJoined(): boolean {
  return process.getActiveResourcesInfo().some((name) => /^(FSReq|GetAddrInfo|GetNameInfo)/.test(name));
}

function exit(code: number): never {
  expectEnd();
  giveUpSignals();
  process.exit(code);
}

/** Restores the signals' default action, so that the next one ends the process even if exit() hangs. */
function giveUpSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeAllListeners(signal);
}

/** Tells whether the arguments contain `-v`, alone or combined with other one-letter flags. */
export function asksForStacks(argv: readonly string[]): boolean {
  return argv.some((word) => word === '--verbose' || /^-[A-Za-z]*v$/.test(word));
}

/** One line for any error: a VfError's message, the system's message about a file, or the name and message of an unexpected error. */
export function errorLine(
  error: unknown,
  { hasVerbose = true, continueWith }: { readonly hasVerbose?: boolean } & Pick<CommandContext, 'continueWith'> = {},
): string {
  if (!(error instanceof Error)) return oneLine(String(error));
  if (error instanceof VfError) return oneLine(error.message);
  const { path } = error as NodeJS.ErrnoException;
  if (isDiskFull(error))
    return oneLine(`the disk is full${path === undefined ? '' : ` (${path})`}; free some space and run ${continueWith ?? 'the command again'}`);
  const said = errnoText(error, path);
  if (said !== null) return oneLine(said);
  return oneLine(`unexpected ${error.name}: ${errorMessage(error)} (${hasVerbose ? '-v shows where; ' : ''}please report it)`);
}

/** UTF-16 units that a terminal still shows on a screen or two. Messages quote names and values of files, which may have any length. */
const LONGEST_LINE = 5000;

/** Turns line feeds into spaces, escapes every other character on which a terminal would act, and leaves out the middle of a text that no reader would read. */
function oneLine(text: string): string {
  const rest = text.length - LONGEST_LINE;
  const shown = rest <= 0 ? text : `${text.slice(0, LONGEST_LINE - 1000)} … ${countText(rest)} characters left out … ${text.slice(-1000)}`;
  return escapeControls(onOneLine(shown));
}

/** @param isTerminal one that was closed fails with EIO */
function isClosedReader({ code }: NodeJS.ErrnoException, isTerminal: boolean): boolean {
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED' || (code === 'EIO' && isTerminal);
}
