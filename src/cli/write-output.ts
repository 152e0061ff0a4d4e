/** Where a command writes its lines: a file that it replaces as a whole, a pipe or a device, or stdout. */
import { once } from 'node:events';
import { open, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { ConfigError } from '../core/errors.ts';
import { replaceFile } from '../files/json-lines.ts';
import { EXIT } from './command-line.ts';

type Write = (text: string) => Promise<void>;

/**
 * Lets `work` write to the file of `-o`, which is only replaced once `work` is done; `-` is stdout. Returns what `work` does. Throws ConfigError for a name that cannot
 * be written, before `work` begins.
 */
export async function writeOutput<T>(output: string, work: (write: Write) => Promise<T>): Promise<T> {
  if (output === '') throw new ConfigError('-o is empty; name a file, or - for stdout');
  return output === '-' ? work(toStdout) : writeOutputFile(output, '-o', work);
}

/** As `writeOutput`, for the file of any flag. */
export async function writeOutputFile<T>(output: string, flag: string, work: (write: Write) => Promise<T>): Promise<T> {
  const path = await realpath(output).catch(() => output);
  const existing = await stat(path).catch(() => null);
  if (existing?.isDirectory()) throw new ConfigError(`${flag} must name a file, but ${output} is a directory`);
  const parent = await stat(dirname(path)).catch(() => null);
  if (!parent?.isDirectory()) throw new ConfigError(`The directory ${dirname(path)} for ${flag} does not exist; create it or name another file`);
  if (existing && !existing.isFile()) {
    // A pipe or a device is written directly; only a file can be replaced.
    const file = await open(path, 'w');
    try {
      return await work((text) => file.appendFile(text));
    } finally {
      await file.close();
    }
  }
  let result: { readonly value: T } | null = null;
  let hasBegun = false;
  await replaceFile(path, async (write) => {
    hasBegun = true;
    result = { value: await work((text) => write(Buffer.from(text, 'utf8'))) };
  }).catch((error: unknown) => {
    throw hasBegun ? error : unwritable(error, { output, flag });
  });
  // Assigned in the callback, which the compiler does not see.
  return (result as { readonly value: T } | null)!.value;
}

/** ConfigError for a place where no file can be created. Returns any other error unchanged. */
function unwritable(error: unknown, { output, flag }: { readonly output: string; readonly flag: string }): unknown {
  const { errno, code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || code === 'ENOSPC' || code === 'EDQUOT') return error;
  return new ConfigError(`Cannot create ${output} (${flag}): ${getSystemErrorMessage(errno)} (${code}). Name a file where you may write.`, {
    cause: error,
  });
}

async function toStdout(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  try {
    await once(process.stdout, 'drain');
  } catch (error) {
    // The reader has closed the pipe (`| head -1`).
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') process.exit(EXIT.done);
    throw error;
  }
}
