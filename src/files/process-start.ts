/** Tells a process from a later one with the same id. */
import { readFile } from 'node:fs/promises';

/** Start time of a process in clock ticks since boot, from /proc; null for a dead process that was not reaped yet; undefined without such a process or /proc. */
export async function processStart(pid: number): Promise<string | null | undefined> {
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The command's name, in parentheses, may contain anything; the state is field 3, the start time field 22.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? null : fields[19]!;
}
