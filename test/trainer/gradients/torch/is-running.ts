import { readFileSync } from 'node:fs';

/** False also for a process that has ended but was not yet waited for. */
export function isRunning(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}
