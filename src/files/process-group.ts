/**
 * A child process and everything that it starts, as one group that ends together: by `stop`, when its leader dies, and when this process dies, even by
 * kill -9. For the last case a watcher in the group reads a pipe whose other end only this process holds; the system closes it when this process
 * ends. A process that left the group is found by its mark, on Linux. POSIX only, like vLLM.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { timerMs } from '../core/timers.ts';

export interface GroupOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** @default this process's */
  readonly folder?: string;
  /** An open, writable descriptor that gets stdout and stderr, even after this process has ended; its standard input is then empty. `pipes`: all three are `streams`. */
  readonly output: number | 'pipes';
  /** Bytes that the command can read from descriptor 4. @default there is none */
  readonly fourth?: Uint8Array | null;
  /**
   * `NAME=value`, a variable of `env` that no other process has. Processes that have it end with the group although they left it, unless they changed their
   * environment. @default those that left the group stay
   */
  readonly mark?: string;
}

export interface GroupEnd {
  /** Null after a signal. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

interface GroupStreams {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
}

/** Time between SIGTERM and SIGKILL once this process is gone. */
const ORPHAN_GRACE_SECONDS = 3;
/** The time for which `stop` waits for killed processes to disappear, in milliseconds. */
const EMPTIED_MS = 30_000;
/** A marked process may start another one while it is looked for. */
const MOST_LOOKS = 50;

// The shell starts the watcher and then becomes the command, so that Node's child, the group leader and the command are one process. The watcher is
// detached, because vLLM may end its own children. It ignores the SIGTERM that it sends, and its SIGKILL ends itself too. The command does not
// inherit the pipe.
const SCRIPT = `
mark=$1
shift
(
  (
    trap '' TERM INT HUP
    read -r nothing <&3
    kill -TERM 0
    sleep ${ORPHAN_GRACE_SECONDS}
    if [ -n "$mark" ] && read -r self rest </proc/self/stat; then
      for each in /proc/[0-9]*/environ; do
        id=\${each#/proc/}
        id=\${id%/environ}
        [ "$id" != "$self" ] && grep -qsF "$mark" "$each" && kill -KILL "$id"
      done
    fi
    kill -KILL 0
  ) </dev/null >/dev/null 2>&1 4<&- &
)
exec "$@" 3<&-
`;

export class ProcessGroup {
  /** Process id of the command, and id of the group. */
  readonly pid: number;
  /** Resolves when the command has ended and the rest of its group was sent SIGKILL. */
  readonly ended: Promise<GroupEnd>;
  readonly #child: ChildProcess;
  readonly #mark: string | null;
  #end: GroupEnd | null = null;

  private constructor(child: ChildProcess, pid: number, mark: string | null) {
    this.#child = child;
    this.#mark = mark;
    this.pid = pid;
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#end = { code, signal };
        this.signal('SIGKILL');
        resolve(this.#end);
      });
    });
  }

  /** Rejects with the system's error if nothing could be started. A missing command ends with code 127. */
  static start({ command, args, env, folder, output, fourth = null, mark = '' }: GroupOptions): Promise<ProcessGroup> {
    return new Promise((resolve, reject) => {
      const own = output === 'pipes' ? (['pipe', 'pipe', 'pipe'] as const) : (['ignore', output, output] as const);
      const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', mark, command, ...args], {
        env,
        detached: true,
        stdio: [...own, 'pipe', ...(fourth === null ? [] : (['pipe'] as const))],
        ...(folder === undefined ? {} : { cwd: folder }),
      });
      child.once('error', reject);
      // The pipes break if the group ends first, which `ended` reports.
      for (const stream of child.stdio) stream?.on('error', () => {});
      (child.stdio[4] as Writable | undefined)?.end(fourth);
      if (child.pid !== undefined) resolve(new ProcessGroup(child, child.pid, mark === '' ? null : mark));
    });
  }

  /** Of a group that was started with `pipes`. */
  get streams(): GroupStreams {
    return this.#child as unknown as GroupStreams;
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  /** Sends a signal to every process of the group; false if none is left. */
  signal(signal: NodeJS.Signals | 0): boolean {
    return send(-this.pid, signal);
  }

  /** Sends SIGTERM, then SIGKILL after `graceMs`. Resolves when no process of the group, and none with its mark, is left. Safe to call twice. */
  async stop(graceMs: number): Promise<GroupEnd> {
    if (!this.hasEnded) this.signal('SIGTERM');
    const force = setTimeout(() => this.signal('SIGKILL'), timerMs(graceMs));
    const end = await this.ended;
    clearTimeout(force);
    this.#child.stdio[3]?.destroy();
    await this.#emptied();
    if (this.#mark !== null) await endMarked(this.#mark);
    return end;
  }

  /** A killed process exists until the system has freed its memory, which takes seconds for a GPU's. */
  async #emptied(): Promise<void> {
    const deadlineMs = performance.now() + EMPTIED_MS;
    for (let waitMs = 1; this.signal('SIGKILL') && hasLivingMember(this.pid) && performance.now() < deadlineMs; waitMs = Math.min(20, 2 * waitMs))
      await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}

/** False if there is no such process of ours. */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // EPERM: the processes belong to another user, so they are not ours.
    if (code === 'ESRCH' || code === 'EPERM') return false;
    throw error;
  }
}

/** Kills every process with the mark in its environment, until a look finds none. Without /proc it finds none. */
async function endMarked(mark: string): Promise<void> {
  for (let looks = 0; looks < MOST_LOOKS; looks++) {
    const marked = processIds().filter((pid) => hasMark(pid, mark));
    for (const pid of marked) send(Number(pid), 'SIGKILL');
    if (marked.length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** False for a process that has ended, also if it was not reaped, and for one of another user. Synchronous, because a hundred small reads cost a quarter of asynchronous ones. */
function hasMark(pid: string, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`).includes(mark);
  } catch {
    return false;
  }
}

/** None without /proc. */
function processIds(): readonly string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** False if only zombies are left of a group; in a container they may never be reaped. */
function hasLivingMember(group: number): boolean {
  // Other systems than Linux reap orphaned processes.
  if (!existsSync('/proc/self/stat')) return true;
  return processIds().some((pid) => {
    try {
      // "pid (name) state parent group ..."; the name may contain anything.
      const [state, , ofGroup] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return Number(ofGroup) === group && state !== 'Z' && state !== 'X';
    } catch {
      // The process has ended meanwhile.
      return false;
    }
  });
}

/** `exit code 1`, `SIGKILL (killed)`. */
export function endText({ code, signal }: GroupEnd): string {
  return signal === null ? `exit code ${code}` : signal === 'SIGKILL' ? 'SIGKILL (killed, possibly out of memory)' : signal;
}
