/**
 * Bounds what the processes of one job hold together. The limits of a process hold for each of its children anew, and not every user may make a cgroup, so the tree
 * of processes is looked at from outside, the more often the less is left. Needs Linux with /proc; elsewhere each process has its own limit and no more. A program can
 * hold more between two looks: at most its number of processes times the limit of one. Not counted: buffers that the kernel holds for pipes and local sockets.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile, statfs } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { countText } from '../../core/count-text.ts';

export interface JobBounds {
  /** The id of the process that was started. */
  readonly pid: number;
  /** Processes of the sandbox between that one and Python, the started one included; 0 if it is Python. */
  readonly sandboxProcesses: number;
  /** Of all processes together, memory that they share counted once. */
  readonly memoryBytes: number;
  /** Size of the sandbox's own /tmp; null without one. */
  readonly tmpBytes: number | null;
  /** The system bounds each process by itself, so that one alone is not looked at. @default true */
  readonly boundsEach?: boolean;
  /** Time between two looks while nothing is held, in milliseconds. @default 25 */
  readonly everyMs?: number;
}

/** Least time between two looks, in milliseconds. */
const LEAST_MS = 2;
/** Files and folders in a sandbox's /tmp: each takes about 1 KiB of the kernel's memory, also an empty one. */
export const MOST_FILES = 1000;
/** A look ends after this many processes, which is more than a job may have. */
const MOST_PROCESSES = 64;
const KIBIBYTE = 1024;

/** Whether this machine tells which processes a job has. */
export function watchesJobs(): boolean {
  return existsSync(`/proc/self/task/${process.pid}/children`);
}

/** Calls `onExcess` once with the reason, if a bound is passed before the watch is disposed of. */
export function watchJob(bounds: JobBounds, onExcess: (reason: string) => void): Disposable {
  const ended = new AbortController();
  const { everyMs = 25 } = bounds;
  void (async () => {
    while (!ended.signal.aborted) {
      const found = await look(bounds);
      if (ended.signal.aborted) return;
      if (typeof found === 'string') return onExcess(found);
      await sleep(Math.max(LEAST_MS, everyMs * (1 - found / bounds.memoryBytes)), undefined, { ref: false });
    }
  })();
  return { [Symbol.dispose]: () => ended.abort() };
}

/** The bytes that several processes hold together, or the reason why the job has to end. 0 for one process that the system bounds by itself. */
async function look({ pid, sandboxProcesses, memoryBytes, tmpBytes, boundsEach = true }: JobBounds): Promise<number | string> {
  const processes = await treeOf(pid);
  const python = processes[sandboxProcesses];
  if (python === undefined) return 0;
  if (tmpBytes !== null && (await filesIn(`/proc/${python}/root/tmp`, tmpBytes)) > MOST_FILES)
    return `The program made more than ${countText(MOST_FILES)} files in /tmp.`;
  if (boundsEach && processes.length === sandboxProcesses + 1) return 0;
  const bytes = (await Promise.all(processes.map(memoryOf))).reduce((sum, each) => sum + each, 0);
  return bytes > memoryBytes ? `The processes of the program held more than ${countText(memoryBytes)} bytes together.` : bytes;
}

/** A process and all that it started, parents first. Those that lose their parent become children of the first process in the sandbox. */
async function treeOf(pid: number): Promise<readonly number[]> {
  const found = [pid];
  for (let i = 0; i < found.length && found.length < MOST_PROCESSES; i++) found.push(...(await childrenOf(found[i]!)));
  return found;
}

async function childrenOf(pid: number): Promise<number[]> {
  const threads = await orElse(readdir(`/proc/${pid}/task`), []);
  const lists = await Promise.all(threads.map((thread) => textOf(`/proc/${pid}/task/${thread}/children`)));
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
}

/** In bytes: its share of the memory that it has together with others, or all of it if the system keeps the shares to itself; 0 for a process that has ended. */
async function memoryOf(pid: number): Promise<number> {
  const share = /^Pss:\s+(\d+) kB/m.exec(await textOf(`/proc/${pid}/smaps_rollup`));
  const kibibytes = share ?? /^VmRSS:\s+(\d+) kB/m.exec(await textOf(`/proc/${pid}/status`));
  return kibibytes === null ? 0 : Number(kibibytes[1]) * KIBIBYTE;
}

/** Until the sandbox has its own root, the path leads to another file system. */
async function filesIn(folder: string, bytes: number): Promise<number> {
  const facts = await orElse(statfs(folder), null);
  return facts !== null && facts.blocks * facts.bsize === bytes ? facts.files - facts.ffree : 0;
}

const textOf = (path: string): Promise<string> => orElse(readFile(path, 'utf8'), '');

/** A process may end between two readings. */
async function orElse<T>(reading: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await reading;
  } catch {
    return otherwise;
  }
}
