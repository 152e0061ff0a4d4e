/** Copies a run, so that the copy can be scored in another way. */
import { constants, existsSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { assertRegular } from '../files/regular-file.ts';
import { runFiles } from './run-files.ts';

/** Copies the records of a run into a folder. Its trace stays, because it belongs to the run itself. */
export async function copyRun(from: string, to: string): Promise<void> {
  const { metadata, results, tokens, asked, played } = runFiles(from);
  for (const path of [metadata, results, tokens, asked, played, join(from, 'images')]) {
    // Shares the bytes if the file system can.
    if (!existsSync(path)) continue;
    const filter = async (source: string) => {
      await assertRegular(source);
      return true;
    };
    await cp(path, join(to, basename(path)), { recursive: true, mode: constants.COPYFILE_FICLONE, filter });
  }
}
