/**
 * A child process with everything that it starts, as one group that ends as one: by `kill`, when its leader dies, and when this process dies in
 * whatever way, kill -9 among them. The last is the work of a watcher in the group: it reads a pipe of which this process alone holds the other end,
 * and the system closes that when this process ends. POSIX only, as vLLM is.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

export interface GroupOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Open for writing: gets stdout and stderr, also after this process has ended. */
  readonly logDescriptor: number;
}

export interface GroupEnd {
  /** Null after a signal. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Between the request to end and the end by force, once this process is gone. */
const ORPHAN_GRACE_SECONDS = 3;
/** How long `stop` waits for what was killed. */
const EMPTIED_MS = 30_000;

// The shell starts the watcher and then becomes the command, so that the child that Node knows, the leader of the group and the command are one process.
// The watcher is nobody's child, for vLLM may end its children. It does not hear the SIGTERM that it sends, and its last act ends itself too. The command
// does not get the pipe.
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
  /** Of the command itself; the group has the same number. */
  readonly pid: number;
  /** Resolves when the command has ended; the rest of its group has been sent SIGKILL by then. */
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

  /** Rejects with the system's error when nothing could be started. A command that does not exist ends with code 127. */
  static start({ command, args, env, logDescriptor }: GroupOptions): Promise<ProcessGroup> {
    return new Promise((resolve, reject) => {
      const child = spawn('/bin/sh', ['-c', SCRIPT, 'sh', command, ...args], {
        env,
        detached: true,
        stdio: ['ignore', logDescriptor, logDescriptor, 'pipe'],
      });
      child.once('error', reject);
      // The pipe breaks when the group ends first: no news.
      child.stdio[3]?.on('error', () => {});
      if (child.pid !== undefined) resolve(new ProcessGroup(child, child.pid));
    });
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  /** Sends a signal to every process of the group; false when there is none left. */
  signal(signal: NodeJS.Signals | 0): boolean {
    try {
      process.kill(-this.pid, signal);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // EPERM: what is left has another owner by now, so it is not ours.
      if (code === 'ESRCH' || code === 'EPERM') return false;
      throw error;
    }
  }

  /** SIGTERM, then SIGKILL after `graceMs`; resolves when nothing of the group is left. Safe to call twice. */
  async stop(graceMs: number): Promise<GroupEnd> {
    if (!this.hasEnded) this.signal('SIGTERM');
    const force = setTimeout(() => this.signal('SIGKILL'), graceMs);
    const end = await this.ended;
    clearTimeout(force);
    this.#child.stdio[3]?.destroy();
    await this.#emptied();
    return end;
  }

  /** What was killed lives until the system has taken its memory back, a GPU's for seconds. */
  async #emptied(): Promise<void> {
    const deadlineMs = performance.now() + EMPTIED_MS;
    while (this.signal('SIGKILL') && hasLivingMember(this.pid) && performance.now() < deadlineMs) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** True unless all that is left of a group has ended and only waits to be collected, which in a container may never happen. */
function hasLivingMember(group: number): boolean {
  let pids: string[];
  try {
    pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    // No Linux: whoever inherits a process there collects it.
    return true;
  }
  return pids.some((pid) => {
    try {
      // "pid (name) state parent group ...", where the name may hold anything.
      const [state, , ofGroup] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return Number(ofGroup) === group && state !== 'Z' && state !== 'X';
    } catch {
      // Ended between the two looks.
      return false;
    }
  });
}

/** `exit code 1`, `SIGKILL (killed)`. */
export function endText({ code, signal }: GroupEnd): string {
  return signal === null ? `exit code ${code}` : signal === 'SIGKILL' ? 'SIGKILL (killed; out of memory does that too)' : signal;
}
