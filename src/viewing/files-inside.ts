/** Opens only files of a run: links that lead out of its folder are refused, and so are pipes and devices. */
import { realpath } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { isInside } from '../files/is-inside.ts';
import { isLink, openRegularFile } from '../files/regular-file.ts';
import { systemText } from '../files/system-text.ts';
import { ViewRequestError } from './view-problem.ts';
import { countText } from '../core/count-text.ts';

/** `directory`: without links, as `findRuns` gives it. Rejects with ViewRequestError for a file elsewhere, otherwise as `openRegularFile` does; null for a missing file. */
export async function openInside(directory: string, name: string): Promise<FileHandle | null> {
  try {
    const [home, path] = await Promise.all([realpath(directory), realpath(join(directory, name))]);
    if (home !== directory) throw new ViewRequestError(404, `The folder of the run is a link now, so ${name} is not read. Restore the folder.`);
    if (!isInside(home, path))
      throw new ViewRequestError(404, `${name} is a link that leads out of the run's folder, so it is not read. Copy the file into the folder.`);
    const file = await openRegularFile(path).catch((error: unknown) => {
      // The text also goes into exported pages, which others read: it does not say where the run lies on this machine.
      const told = (message: string) =>
        message.replace(path, name).replace('; name a regular file', ', and not a file of the run. Restore the file.');
      throw error instanceof ConfigError ? new ViewRequestError(400, told(error.message), { cause: error }) : error;
    });
    if ((await file.stat()).isFile()) return file;
    await file.close();
    throw new ViewRequestError(404, `${name} is a folder, and not a file of the run. Restore the file.`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && isLink(join(directory, name)))
      throw new ViewRequestError(404, `${name} is a link to a file that does not exist. Restore the file, or remove the link.`);
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    if (code === undefined) throw error;
    throw new ViewRequestError(400, `${name} cannot be read: ${systemText(error)}. Restore the file.`, { cause: error });
  }
}

/** The text of a small file, without a mark of its byte order; null for a missing one. Throws ViewRequestError for one that is longer. */
export async function readInside(directory: string, name: string, maxBytes: number): Promise<string | null> {
  await using file = await openInside(directory, name);
  if (file === null) return null;
  const { size } = await file.stat();
  if (size > maxBytes)
    throw new ViewRequestError(
      400,
      `${name} has ${countText(size)} bytes, and vf-view reads at most ${countText(maxBytes)} of it. Check whether the file belongs to the run.`,
    );
  return (await file.readFile('utf8')).replace(/^\ufeff/, '');
}
