/**
 * A lock that allows one writer per run directory, also after kill -9. Every contender creates a file whose name identifies its process, then checks the others: a
 * living process means that the directory is taken; a dead one's file is removed. A name belongs to one process forever, so removing it cannot break another
 * process's lock. A process holds the lock if it sees no other. If several arrive at once, the one whose name sorts first checks again, and the others withdraw for
 * a moment.
 */
import { unlinkSync } from 'node:fs';
import { readdir, unlink, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { namesIn } from './if-there.ts';
import { assertOwnEntries } from './own-entries.ts';
import { ConfigError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { processStart } from './process-start.ts';

const PREFIX = '.lock';
const ATTEMPTS = 5;
const LONGEST_PAUSE_MS = 60;

interface Holder {
  readonly file: string;
  readonly host: string;
  readonly pid: number;
  /** Start time of the process in clock ticks since boot; `x` if unknown. */
  readonly started: string;
}

export interface RunLock extends AsyncDisposable {
  /** Name of its file, which a rename of the directory takes along. The process that renames the directory removes the file. */
  readonly file: string;
}

/** Paths of the locks that this process holds. */
const held = new Set<string>();

/** Removes the locks of a process that ends without disposing them. */
export function releaseLocks(): void {
  for (const path of held) {
    try {
      unlinkSync(path);
    } catch {
      // The next process sees that this one is gone.
    }
  }
  held.clear();
}

/**
 * Locks the directory until disposed, or with `name` only that output in it. Throws ConfigError if a living process holds it, or a process on another machine, which
 * may be alive, and for a directory with links or pipes in it (`assertOwnEntries`).
 */
export async function lockRun(directory: string, name: string | null = null): Promise<RunLock> {
  if (name === null) await assertOwnEntries(directory);
  const host = hostname().replace(/[^\w.-]/g, '_');
  const prefix = name === null ? PREFIX : `${PREFIX}.${name.replace(/[^\w.-]/g, '_')}`;
  const place = name === null ? directory : join(directory, name);
  const file = [prefix, host, process.pid, (await processStart(process.pid)) ?? 'x'].join('~');
  const path = join(directory, file);
  const random = Random.fromSeed(process.pid);
  await claim(path, place);
  for (let attempt = 1; ; attempt++) {
    const others = await otherHolders(directory, file, { host, prefix });
    if (others.length === 0) {
      held.add(path);
      return {
        file,
        async [Symbol.asyncDispose]() {
          held.delete(path);
          await unlink(path).catch(ignoreMissing);
        },
      };
    }
    const isFirst = others.every((other) => file < other.file);
    if (!isFirst || attempt === ATTEMPTS) await unlink(path).catch(ignoreMissing);
    if (attempt === ATTEMPTS) throw new ConfigError(takenText(others[0]!, { directory, place, host }));
    await sleep(1 + random.integer(LONGEST_PAUSE_MS));
    if (!isFirst) await claim(path, place);
  }
}

/** True if a living process of this machine, or any process of another machine, writes to the directory. Changes nothing. */
export async function hasLivingWriter(directory: string): Promise<boolean> {
  const host = hostname().replace(/[^\w.-]/g, '_');
  for (const file of await namesIn(directory)) {
    const [start, otherHost, pid, started, ...rest] = file.split('~');
    if (start !== PREFIX || otherHost === undefined || started === undefined || rest.length > 0) continue;
    if (otherHost !== host || (await isAlive({ file, host: otherHost, pid: Number(pid), started }))) return true;
  }
  return false;
}

async function claim(path: string, place: string): Promise<void> {
  try {
    await writeFile(path, '', { flag: 'wx' });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    throw new ConfigError(`This process is already writing a run to ${place}. Choose another directory.`, { cause });
  }
}

/** The contenders that may be alive. Removes the files of dead ones. */
async function otherHolders(directory: string, own: string, { host, prefix }: { readonly host: string; readonly prefix: string }): Promise<Holder[]> {
  const holders: Holder[] = [];
  for (const file of await readdir(directory)) {
    const [start, otherHost, pid, started, ...rest] = file.split('~');
    if (file === own || start !== prefix || otherHost === undefined || started === undefined || rest.length > 0) continue;
    const holder = { file, host: otherHost, pid: Number(pid), started };
    if (otherHost !== host || (await isAlive(holder))) holders.push(holder);
    else await unlink(join(directory, file)).catch(ignoreMissing);
  }
  return holders;
}

function takenText(other: Holder, { directory, place, host }: { readonly directory: string; readonly place: string; readonly host: string }): string {
  const who = `Process ${other.pid}${other.host === host ? '' : ` on ${other.host}`}`;
  const remedy =
    other.host === host
      ? `Wait for it or stop it, then ${place === directory ? 'resume' : 'run the command again'}.`
      : `If that process is gone, delete ${join(directory, other.file)} and run the command again.`;
  return `${who} is writing to ${place}. ${remedy}`;
}

async function isAlive({ pid, started }: Holder): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const now = await processStart(pid);
  // Without /proc, a living process with this id is assumed to have written the file.
  return now === undefined || started === 'x' || now === started;
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
