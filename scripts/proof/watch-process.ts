/** CPU time and peak memory of a running process, from /proc. */
import { readFileSync } from 'node:fs';

/** Linux counts CPU time in hundredths of a second. */
const TICK_MS = 10;
const POLL_MS = 50;

/** Milliseconds of CPU that a process has used so far, in all its threads. Throws if the process has ended, or the system is not Linux. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

export interface ProcessFigures {
  /** Null if the system does not report it. */
  readonly peakMemoryBytes: number | null;
  readonly cpuSeconds: number | null;
}

/** Polls a process; events in its last 50 ms are missed. */
export function watchProcess(pid: number): { readonly stop: () => ProcessFigures } {
  let figures: ProcessFigures = { peakMemoryBytes: null, cpuSeconds: null };
  const read = () => {
    try {
      const found = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
      // A process that has ended keeps its CPU time until it is waited for, but no memory.
      figures = { peakMemoryBytes: found === null ? figures.peakMemoryBytes : Number(found[1]) * 1024, cpuSeconds: cpuMs(pid) / 1000 };
    } catch {
      // Not Linux, or the process has just ended.
    }
  };
  const timer = setInterval(read, POLL_MS);
  return {
    stop: () => {
      clearInterval(timer);
      return figures;
    },
  };
}
