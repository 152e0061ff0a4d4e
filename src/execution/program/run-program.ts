/**
 * Runs a program of the user once: an agent, or a command that scores one. It gets nothing but the variables that it is given, and everything that it started ends with
 * it, also what left its process group, on Linux. Without a sandbox, a process that leaves the group and drops its variables too is not found. Its output is bounded. What the program says is not judged here.
 */
import { StringDecoder } from 'node:string_decoder';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortError, onAbort } from '../../core/abort.ts';
import { countText } from '../../core/count-text.ts';
import { ExecutionError } from '../../core/errors.ts';
import { timerMs } from '../../core/timers.ts';
import { withoutColours } from '../../core/without-colours.ts';
import { type GroupEnd, ProcessGroup } from '../../files/process-group.ts';
import { SHORTEST_WORD } from '../../transport/credentials.ts';
import { watchJob } from '../process/job-watch.ts';
import { assertProgram } from './find-program.ts';
import { openProgramFolder, type ProgramFolder } from './program-folder.ts';
import { startError } from '../process/sandboxed-process.ts';
import { type CagedCommand, cagedCommand, openBridge, type ProgramSandbox } from './program-sandbox.ts';

/** Variables that every program gets: its folder, a folder for what it throws away, and one by which its processes are found. */
export const PROGRAM_VARIABLES = ['HOME', 'TMPDIR', 'VF_PROGRAM'] as const;

export interface ProgramOptions {
  /** A program by its absolute path, and its arguments; no shell reads them. */
  readonly command: readonly string[];
  readonly folder: ProgramFolder;
  /** All variables that it gets, besides PROGRAM_VARIABLES. */
  readonly env: Readonly<Record<string, string>>;
  /** Its standard input. @default empty */
  readonly input?: string;
  /** @default 300 */
  readonly seconds?: number;
  /** Of stdout and stderr together. @default 1 MiB */
  readonly outputBytes?: number;
  /** Values that are hidden in stderr; those of fewer than 8 characters are taken for ordinary words. @default none */
  readonly secrets?: readonly string[];
  /** Of all its processes together, where /proc tells them. @default 4 GiB */
  readonly memoryBytes?: number;
  /** Between SIGTERM and SIGKILL, in milliseconds. @default 2000 */
  readonly graceMs?: number;
  /** @default none: it may do what the user may */
  readonly sandbox?: ProgramSandbox | null;
  readonly signal: AbortSignal;
}

export interface ProgramEnd extends GroupEnd {
  /** Why it was ended before it ended itself; null if it did. */
  readonly excess: null | { readonly reason: 'deadline' | 'output' | 'memory'; readonly detail: string };
  readonly stdout: string;
  /** The last 4,000 characters of stderr, without colours. It is longer only where a secret would be cut. Each secret reads `[hidden]`. */
  readonly stderr: string;
}

type Excess = NonNullable<ProgramEnd['excess']>;

const MIB = 2 ** 20;
const STDERR_CHARACTERS = 4000;
/** Many programs may run at once, and a look costs a millisecond. */
const LOOK_EVERY_MS = 250;
/** For output that is in the pipes when the program has ended. */
const CLOSING_MS = 1000;

/**
 * Throws ExecutionError if the program or its sandbox does not start, and the signal's reason if it aborts. Settles when no process of it is left.
 * @example
 * await using folder = await openProgramFolder();
 * const { stdout, code } = await runProgram({ command: ['/usr/bin/python3', '/home/me/agent.py'], folder, env: { PATH: '/usr/bin' }, signal });
 */
export async function runProgram(options: ProgramOptions): Promise<ProgramEnd> {
  const { sandbox = null, folder, command } = options;
  const network = sandbox?.network ?? 'all';
  await using _ = typeof network === 'string' ? null : await openBridge(folder.socket, network.server);
  const caged =
    sandbox === null ? { command: command[0]!, args: command.slice(1), filter: null, processes: 0 } : cagedCommand(command, folder, sandbox);
  const end = await runCommand(caged, options);
  // The program was there when the run began. What it prints proves nothing, because a policy may have written it.
  if (end.code === 126 || end.code === 127) assertProgram(command[0]!, { endsRun: true });
  return end;
}

async function runCommand({ command, args, filter, processes }: CagedCommand, options: ProgramOptions): Promise<ProgramEnd> {
  const { env, folder, input = '', graceMs = 2000, memoryBytes = 4096 * MIB, seconds = 300, signal } = options;
  if (signal.aborted) throw abortError(signal);
  const own: Readonly<Record<(typeof PROGRAM_VARIABLES)[number], string>> = {
    HOME: folder.home,
    TMPDIR: folder.tmp,
    VF_PROGRAM: crypto.randomUUID(),
  };
  const variables = { ...env, ...own };
  const group = await ProcessGroup.start({
    command,
    args,
    env: variables,
    folder: folder.work,
    output: 'pipes',
    fourth: filter,
    mark: `VF_PROGRAM=${own.VF_PROGRAM}`,
  }).catch((cause: unknown) => {
    throw new ExecutionError(`No program can be started here`, { cause, endsRun: true });
  });
  const { stdin, stdout, stderr } = group.streams;
  stdin.end(input);
  const bound = Promise.withResolvers<Excess | 'aborted'>();
  const { outputBytes: mostBytes = MIB } = options;
  const secrets = (options.secrets ?? []).filter(({ length }) => length >= SHORTEST_WORD);
  const output = collect(stdout, stderr, { mostBytes, secrets, onExcess: bound.resolve });
  using _ = onAbort(signal, () => bound.resolve('aborted'));
  using watch = watchJob(
    { pid: group.pid, sandboxProcesses: processes, memoryBytes, tmpBytes: null, boundsEach: false, everyMs: LOOK_EVERY_MS },
    (reason) => bound.resolve({ reason: 'memory', detail: reason }),
  );
  // A program that ended while this thread was busy counts before the deadline does.
  const late: Excess = { reason: 'deadline', detail: `It ran for longer than ${seconds} s.` };
  const timer = setTimeout(() => setImmediate(() => bound.resolve(late)), timerMs(seconds * 1000));
  try {
    const first = await Promise.race([group.ended.then(() => null), bound.promise]);
    clearTimeout(timer);
    watch[Symbol.dispose]();
    const end = await group.stop(first === null ? 0 : graceMs);
    await Promise.race([output.closed, sleep(CLOSING_MS, undefined, { ref: false })]);
    if (first === 'aborted') throw abortError(signal);
    return { ...end, excess: output.excess() ?? first, stdout: output.stdout(), stderr: output.stderr() };
  } finally {
    clearTimeout(timer);
    for (const stream of [stdin, stdout, stderr]) stream.destroy();
  }
}

interface Output {
  readonly closed: Promise<unknown>;
  excess(): Excess | null;
  stdout(): string;
  stderr(): string;
}

function collect(
  stdout: Readable,
  stderr: Readable,
  { mostBytes, secrets, onExcess }: { readonly mostBytes: number; readonly secrets: readonly string[]; readonly onExcess: (excess: Excess) => void },
): Output {
  const tailLength = STDERR_CHARACTERS + Math.max(0, ...secrets.map(({ length }) => length));
  const kept: Buffer[] = [];
  const decoder = new StringDecoder('utf8');
  let tail = '';
  let bytes = 0;
  const excess = (): Excess | null =>
    bytes > mostBytes ? { reason: 'output', detail: `It printed more than ${countText(mostBytes)} bytes.` } : null;
  const count = (piece: Buffer): boolean => {
    bytes += piece.length;
    const ended = excess();
    if (ended !== null) onExcess(ended);
    return ended === null;
  };
  stdout.on('data', (piece: Buffer) => void (count(piece) && kept.push(piece)));
  stderr.on('data', (piece: Buffer) => {
    count(piece);
    tail = (tail + decoder.write(piece)).slice(-tailLength);
  });
  const closed = Promise.all([stdout, stderr].map((stream) => new Promise<void>((resolve) => stream.once('close', () => resolve()))));
  return { closed, excess, stdout: () => Buffer.concat(kept).toString('utf8'), stderr: () => endWithout(secrets, withoutColours(tail)) };
}

/** The last 4,000 characters with each secret replaced. A secret that begins before them is kept whole, because half of it would not be recognised. */
function endWithout(secrets: readonly string[], tail: string): string {
  let start = Math.max(0, tail.length - STDERR_CHARACTERS);
  for (const secret of secrets) {
    const at = tail.lastIndexOf(secret, start);
    if (at !== -1 && at + secret.length > start) start = at;
  }
  return secrets.reduce((hidden, secret) => hidden.replaceAll(secret, '[hidden]'), tail.slice(start));
}

/** Throws ExecutionError, with the remedy, if the sandbox does not start on this machine. */
export async function assertSandbox(sandbox: ProgramSandbox, signal: AbortSignal): Promise<void> {
  await using folder = await openProgramFolder();
  const options = { command: ['/usr/bin/env', 'true'], folder, env: { PATH: '/usr/bin' }, seconds: 30, sandbox, signal };
  const { code, excess, stderr } = await runProgram(options);
  if (code !== 0) throw startError(excess?.detail ?? (stderr.trim() || `it ended with code ${code}`));
}
