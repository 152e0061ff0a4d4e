/** The target of a command's lines: a file that it replaces as a whole, stdout, stderr or /dev/null. */
import { once } from 'node:events';
import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { openRegularFile, otherKind } from '../files/regular-file.ts';
import { ConfigError } from '../core/errors.ts';
import { isDiskFull } from '../files/disk-full.ts';
import { errnoText } from '../files/errno-text.ts';
import { replaceFile } from '../files/json-lines.ts';
import { isRunFolder } from '../viewing/find-runs.ts';
import { expectEnd } from './unexpected-end.ts';
import { EXIT } from './command-line.ts';

/** The beginning of a page of vf-view. No record of a run begins in this way. */
const PAGE_START = '<!doctype html>';

type Write = (text: string) => Promise<void>;

export const isStdout = (output: string) => output === '-' || output === '/dev/stdout';

/** Written directly, because only a file can be replaced. Another pipe or device could wait without end. */
const STREAMS: Readonly<Record<string, Write>> = {
  '-': (text) => toStream(process.stdout, text),
  '/dev/stdout': (text) => toStream(process.stdout, text),
  '/dev/stderr': (text) => toStream(process.stderr, text),
  '/dev/null': async () => {},
};

/**
 * Lets `work` write to the file of `flag`, which is only replaced once `work` is done; `-` is stdout. Returns the result of `work`. Throws ConfigError for a name that cannot
 * be written, before `work` begins.
 */
export async function writeOutput<T>(output: string, work: (write: Write) => Promise<T>, flag = '-o'): Promise<T> {
  if (output === '') throw new ConfigError(`${flag} is empty; name a file, or - for stdout`);
  const stream = Object.hasOwn(STREAMS, output) ? STREAMS[output]! : null;
  return stream === null ? writeOutputFile(output, flag, work) : work(stream);
}

async function writeOutputFile<T>(output: string, flag: string, work: (write: Write) => Promise<T>): Promise<T> {
  const path = await realpath(output).catch(() => output);
  const existing = await stat(path).catch(() => null);
  if (existing?.isFile() === false)
    throw new ConfigError(`${output} (${flag}) is ${otherKind(existing) ?? 'a directory'}; name a file, or - for stdout`);
  const parent = await stat(dirname(path)).catch(() => null);
  if (!parent?.isDirectory()) throw new ConfigError(`The directory ${dirname(path)} for ${flag} does not exist; create it or name another file`);
  if (existing) await refuseRecord(path, { output, flag });
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

/** Throws ConfigError for a file of a run: only a page that vf-view exported there before may be replaced. */
async function refuseRecord(path: string, { output, flag }: { readonly output: string; readonly flag: string }): Promise<void> {
  // The link of a run may lead to a record elsewhere.
  const run = runFolderOf(dirname(path)) ?? runFolderOf(await realpath(dirname(output)));
  if (run === null || (await isPage(path).catch(() => false))) return;
  throw new ConfigError(`${output} (${flag}) is a file of the run ${run} and was not replaced. Name a file outside the run's folder.`);
}

/** The nearest folder of a run that holds `folder`, or `folder` itself; null if there is none. */
function runFolderOf(folder: string): string | null {
  if (isRunFolder(folder)) return folder;
  const parent = dirname(folder);
  return parent === folder ? null : runFolderOf(parent);
}

async function isPage(path: string): Promise<boolean> {
  const file = await openRegularFile(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(PAGE_START.length), 0, PAGE_START.length, 0);
    return buffer.toString('latin1', 0, bytesRead) === PAGE_START;
  } finally {
    await file.close();
  }
}

/** ConfigError for a place where no file can be created. Returns any other error unchanged. */
function unwritable(error: unknown, { output, flag }: { readonly output: string; readonly flag: string }): unknown {
  const said = errnoText((error as Error).cause);
  if (said === null || isDiskFull(error)) return error;
  return new ConfigError(`Cannot create ${output} (${flag}): ${said}. Name a file where you may write.`, {
    cause: error,
  });
}

async function toStream(stream: NodeJS.WriteStream, text: string): Promise<void> {
  if (stream.write(text)) return;
  try {
    await once(stream, 'drain');
  } catch (error) {
    // The reader has closed the pipe (`| head -1`).
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') {
      expectEnd();
      process.exit(EXIT.done);
    }
    throw error;
  }
}
