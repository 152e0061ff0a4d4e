/**
 * A child process and everything that it starts, as one group that ends together: by `stop`, when its leader dies, and when this process dies, even by
 * kill -9. For the last case a watcher in the group reads a pipe whose other end only this process holds; the system closes it when this process
 * ends. POSIX only, like vLLM.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

export interface GroupOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** An open, writable descriptor that gets stdout and stderr, even after this process has ended. */
  readonly logDescriptor: number;
}

export interface GroupEnd {
  /** Null after a signal. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Time between SIGTERM and SIGKILL once this process is gone. */
const ORPHAN_GRACE_SECONDS = 3;
/** The time for which `stop` waits for killed processes to disappear, in milliseconds. */
const EMPTIED_MS = 30_000;

// The shell starts the watcher and then becomes the command, so that Node's child, the group leader and the command are one process. The watcher is
// detached, because vLLM may end its own children. It ignores the SIGTERM that it sends, and its SIGKILL ends itself too. The command does not
// inherit the pipe.
const SCRIPT = `
(
  (
    trap '' TERM INT HUP
    read -r nothing <&3
    kill -TERM 0
    sleep ${ORPHAN_GRACE_SECONDS}
    kill -KILL 0
  ) </dev/null >/dev/null 2>&1 &
)
exec "$@" 3<&-
`;

export class ProcessGroup {
  /** Process id of the command, and id of the group. */
  readonly pid: number;
  /** Resolves when the command has ended and the rest of its group was sent SIGKILL. */
  readonly ended: Promise<GroupEnd>;
  readonly #child: ChildProcess;
  #end: GroupEnd | null = null;

  private constructor(child: ChildProcess, pid: number) {
    this.#child = child;
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
  static start({ command, args, env, logDescriptor }: GroupOptions): Promise<ProcessGroup> {
    return new Promise((resolve, reject) => {
      const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', command, ...args], {
        env,
        detached: true,
        stdio: ['ignore', logDescriptor, logDescriptor, 'pipe'],
      });
      child.once('error', reject);
      // The pipe breaks if the group ends first, which `ended` reports.
      child.stdio[3]?.on('error', () => {});
      if (child.pid !== undefined) resolve(new ProcessGroup(child, child.pid));
    });
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  /** Sends a signal to every process of the group; false if none is left. */
  signal(signal: NodeJS.Signals | 0): boolean {
    try {
      process.kill(-this.pid, signal);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // EPERM: the processes belong to another user, so they are not ours.
      if (code === 'ESRCH' || code === 'EPERM') return false;
      throw error;
    }
  }

  /** Sends SIGTERM, then SIGKILL after `graceMs`. Resolves when no process of the group is left. Safe to call twice. */
  async stop(graceMs: number): Promise<GroupEnd> {
    if (!this.hasEnded) this.signal('SIGTERM');
    const force = setTimeout(() => this.signal('SIGKILL'), graceMs);
    const end = await this.ended;
    clearTimeout(force);
    this.#child.stdio[3]?.destroy();
    await this.#emptied();
    return end;
  }

  /** A killed process exists until the system has freed its memory, which takes seconds for a GPU's. */
  async #emptied(): Promise<void> {
    const deadlineMs = performance.now() + EMPTIED_MS;
    while (this.signal('SIGKILL') && hasLivingMember(this.pid) && performance.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** False if only zombies are left of a group; in a container they may never be reaped. */
function hasLivingMember(group: number): boolean {
  let pids: string[];
  try {
    pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    // Not Linux: other systems reap orphaned processes.
    return true;
  }
  return pids.some((pid) => {
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
