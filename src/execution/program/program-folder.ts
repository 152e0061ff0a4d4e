/** The folder of one run of a program. It is removed afterwards; that of a killed process is removed by the next one. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExecutionError } from '../../core/errors.ts';
import { removeLeftOvers, temporaryPrefix } from '../../files/temporary-names.ts';

export interface ProgramFolder extends AsyncDisposable {
  /** Where the program starts. */
  readonly work: string;
  /** What the program takes for the user's home. */
  readonly home: string;
  readonly tmp: string;
  /** Path of a local socket, outside both. */
  readonly socket: string;
}

const NAME = 'vf-program';
/** Of a socket's path, in bytes (sun_path of unix(7), with its zero byte). */
const SOCKET_PATH_BYTES = 107;

/**
 * `work`: the folder that another program left, where this one starts with a home of its own: interpreters load code from the user's home.
 * Throws ExecutionError if the system's folder for temporary files cannot hold it.
 */
export async function openProgramFolder(options: { readonly work?: string } = {}): Promise<ProgramFolder> {
  const within = realpathSync(tmpdir());
  const folder = await mkdtemp(temporaryPrefix(join(within, NAME))).catch((cause: unknown) => {
    throw new ExecutionError(`No folder for a program can be made in ${within}. Set TMPDIR to a folder with room`, { cause, endsRun: true });
  });
  const [home, tmp, socket] = [join(folder, 'home'), join(folder, 'tmp'), join(folder, 'socket')];
  if (Buffer.byteLength(socket) > SOCKET_PATH_BYTES)
    throw new ExecutionError(`The path ${socket} is too long for a socket. Set TMPDIR to a shorter one`, { endsRun: true });
  await Promise.all([mkdir(home), mkdir(tmp)]);
  const { work = home } = options;
  return { work, home, tmp, socket, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true, maxRetries: 3 }) };
}

/** Removes the folders of processes that were killed. */
export function removeOldFolders(): void {
  removeLeftOvers(join(tmpdir(), NAME));
}
