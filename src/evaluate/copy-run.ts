/** A copy of a run, to be scored in another way. */
import { constants, existsSync } from 'node:fs';
import { cp, mkdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { syncDirectory } from '../files/json-lines.ts';
import { runFiles } from './run-files.ts';

/**
 * Copies the records of a run, but not its trace, which tells what happened in the run itself. The copy has its name only once it is whole. Throws ConfigError
 * if that is taken.
 */
export async function copyRun(from: string, to: string): Promise<void> {
  if (existsSync(to)) throw new ConfigError(`${to} already exists. Name another folder.`);
  const { metadata, results, tokens, asked, played } = runFiles(from);
  const whole = `${to}.${process.pid}.tmp`;
  await mkdir(dirname(to), { recursive: true });
  await rm(whole, { recursive: true, force: true });
  await mkdir(whole);
  for (const path of [metadata, results, tokens, asked, played, join(from, 'images')]) {
    // Shares the bytes where the file system can.
    if (existsSync(path)) await cp(path, join(whole, basename(path)), { recursive: true, mode: constants.COPYFILE_FICLONE });
  }
  await rename(whole, to);
  await syncDirectory(dirname(to));
}
