/** Where a command writes its lines: a file that it replaces as a whole, a pipe or a device, or stdout. */
import { once } from 'node:events';
import { open, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
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
  if (output === '-') return work(toStdout);
  const path = await realpath(output).catch(() => output);
  const existing = await stat(path).catch(() => null);
  if (existing?.isDirectory()) throw new ConfigError(`-o must name a file, but ${output} is a directory`);
  const parent = await stat(dirname(path)).catch(() => null);
  if (!parent?.isDirectory()) throw new ConfigError(`There is no directory ${dirname(path)} for -o; create it or name another file`);
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
  await replaceFile(path, async (write) => {
    result = { value: await work((text) => write(Buffer.from(text, 'utf8'))) };
  });
  // Assigned in the callback, which the compiler does not see.
  return (result as { readonly value: T } | null)!.value;
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
