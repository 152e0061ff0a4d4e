/**
 * One process that serves one job. It receives the job on standard input and replies over descriptor 3. Its output is counted and thrown away. The process and its
 * group end at the deadline, at the first byte beyond a limit, once they hold too much together (`job-watch.ts`), or as soon as the reply has arrived.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortError, onAbort } from '../../core/abort.ts';
import { countText } from '../../core/count-text.ts';
import { ExecutionError } from '../../core/errors.ts';
import { decodeFrame, encodeFrame, findFrame } from '../frames.ts';
import type { PythonSources } from '../python-sources.ts';
import type { Attempt } from '../attempt.ts';
import { watchJob } from './job-watch.ts';
import { FILTER, type SandboxCommand } from './sandbox-command.ts';

export interface ProcessJob {
  readonly sandbox: SandboxCommand;
  readonly sources: PythonSources;
  /** A frame for the runner, without its token; the mode first. */
  readonly fields: readonly string[];
  readonly hashSeed: number;
  readonly seconds: number;
  readonly memoryBytes: number;
  readonly outputBytes: number;
  readonly replyBytes: number;
}

// With the packages of this Python, without those of the user.
const FLAGS = ['-s', '-B', '-W', 'ignore', '-c'];
const REPLIES = 3;
/** The code and libraries of Python count as memory of the process. */
const CODE_BYTES = 64 * 2 ** 20;
/** Room for the message that the process started, in bytes. */
const START_BYTES = 2 ** 20;
const ERROR_BYTES = 500;
const CLOSING_MS = 1000;
const ALLOW_NAMESPACES =
  'allow namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1 (Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0; Docker: --security-opt seccomp=unconfined)';
/** Nobody: a root user is exempt from the limit on processes. */
const NOBODY = 65_534;

/** Throws ExecutionError if the sandbox does not start, and the signal's reason if it aborts. */
export async function runProcess(job: ProcessJob, signal: AbortSignal): Promise<Attempt> {
  const token = crypto.randomUUID();
  const child = start(job);
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const output = collect(child, job, token);
  child.stdin!.on('error', () => {});
  child.stdin!.end(encodeFrame([token, ...job.fields]));
  const aborted = Promise.withResolvers<'aborted'>();
  using _ = onAbort(signal, () => aborted.resolve('aborted'));
  const bound = Promise.withResolvers<Attempt>();
  // A reply that came while this thread was busy is taken before the deadline counts.
  const late: Attempt = { kind: 'ended', failure: 'timeout', detail: `The job ran for longer than ${job.seconds} s.` };
  const timer = setTimeout(() => setImmediate(() => bound.resolve(late)), job.seconds * 1000);
  const watch = watchTree(child, job, (detail) => bound.resolve({ kind: 'ended', failure: 'memory', detail }));
  try {
    const attempt = await Promise.race([output.attempt, bound.promise, aborted.promise]);
    if (attempt === 'aborted') throw abortError(signal);
    kill(child);
    // Output from before the reply may arrive after it. A process that left the group may hold the pipes open.
    await Promise.race([closed, sleep(CLOSING_MS, undefined, { ref: false })]);
    return output.excess() ?? attempt;
  } finally {
    clearTimeout(timer);
    watch?.[Symbol.dispose]();
    kill(child);
    for (const stream of child.stdio) stream?.destroy();
  }
}

function start({ sandbox, sources, hashSeed, seconds, memoryBytes }: ProcessJob): ChildProcess {
  const limits = {
    CPU: Math.ceil(seconds) + 1,
    AS: memoryBytes + CODE_BYTES,
    FSIZE: 2 ** 20,
    NOFILE: 64,
    NPROC: 16,
    CORE: 0,
  };
  const limitText = Object.entries(limits)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
  const child = spawn(sandbox.command, [...sandbox.args, ...FLAGS, sources.boot, String(REPLIES), limitText, sources.form, ...sources.modules], {
    env: { PYTHONHASHSEED: String(hashSeed) },
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', ...(sandbox.filter === null ? [] : (['pipe'] as const))],
    ...(process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  if (sandbox.filter !== null) {
    const filter = child.stdio[FILTER] as Writable;
    filter.on('error', () => {});
    filter.end(sandbox.filter);
  }
  return child;
}

/** A process that could not be started has no id. */
function watchTree({ pid }: ChildProcess, { sandbox, memoryBytes }: ProcessJob, onExcess: (reason: string) => void): Disposable | undefined {
  const { processes: sandboxProcesses, tmpBytes } = sandbox;
  return pid === undefined ? undefined : watchJob({ pid, sandboxProcesses, memoryBytes: memoryBytes + CODE_BYTES, tmpBytes }, onExcess);
}

interface Output {
  /** Resolves when the process replied, ended or passed a limit. */
  readonly attempt: Promise<Attempt>;
  /** Not null once the process has printed too much. */
  excess(): Attempt | null;
}

function collect(child: ChildProcess, { outputBytes, replyBytes }: ProcessJob, token: string): Output {
  const { promise, resolve, reject } = Promise.withResolvers<Attempt>();
  let replies: Uint8Array = new Uint8Array();
  let printed = 0;
  let lastError = '';
  const excess = (): Attempt | null =>
    printed > outputBytes
      ? { kind: 'ended', failure: 'output_too_long', detail: `The program printed more than ${countText(outputBytes)} bytes.` }
      : null;
  const print = (bytes: Uint8Array) => {
    printed += bytes.length;
    const ended = excess();
    if (ended !== null) resolve(ended);
  };
  child.stdout!.on('data', print);
  child.stderr!.on('data', (bytes: Uint8Array) => {
    print(bytes);
    lastError = (lastError + Buffer.from(bytes.subarray(0, ERROR_BYTES)).toString()).slice(-ERROR_BYTES);
  });
  (child.stdio[REPLIES] as Readable).on('data', (bytes: Uint8Array) => {
    replies = Buffer.concat([replies, bytes]);
    if (replies.length > START_BYTES + replyBytes) return resolve({ kind: 'ended', failure: 'output_too_long', detail: 'The reply is too long.' });
    // The program may have written to the descriptor before the runner.
    const frame = findFrame(replies, token);
    if (frame !== null) resolve({ kind: 'reply', fields: decodeFrame(frame)!.slice(1) });
  });
  child.on('error', (cause) => reject(new ExecutionError(`The sandbox cannot be started (${cause.message}).`, { cause })));
  child.on('close', (code, killer) => {
    if (replies.length === 0) reject(startError(lastError.trim() || `it ended with ${killer ?? `code ${code}`}`));
    else resolve({ kind: 'ended', failure: failure(killer), detail: `The process ended with ${killer ?? `code ${code}`}.` });
  });
  return { attempt: promise, excess };
}

/** @param reason what the sandbox said */
export function startError(reason: string): ExecutionError {
  const remedy = /namespace|permi|uid map/i.test(reason) ? ALLOW_NAMESPACES : null;
  return new ExecutionError(`The sandbox does not start: ${reason}${remedy === null ? '' : `. To fix it, ${remedy}`}`, { remedy });
}

/** The system kills a process that takes too much memory, and uses its own signal for one that takes too much CPU time. */
function failure(killer: NodeJS.Signals | null) {
  if (killer === 'SIGXCPU') return 'timeout';
  return killer === 'SIGKILL' ? 'memory' : 'crashed';
}

/** Ends the process and its group, and with it everything in its namespaces. */
function kill(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The group has ended.
  }
}
