/** Reads small text files by their path. Throws errors of the caller's own class. */
import { openRegularFile } from './regular-file.ts';
import { type ReadFileOptions, readSourceText, readSourceTextIfPresent } from './source-text.ts';
import { decodeText } from './user-text.ts';

type TextOptions = Omit<ReadFileOptions, 'decode'>;

/** Names are paths. */
const DISK = { pathOf: (path: string) => path, open: openRegularFile };

/** Rejects with what `makeError` makes. */
export function readText(path: string, options: TextOptions): Promise<string> {
  return readSourceText(DISK, path, { ...options, decode: decodeText });
}

/** Returns null for a missing file. A path through a file counts as missing. */
export function readTextIfPresent(path: string, options: TextOptions): Promise<string | null> {
  return readSourceTextIfPresent(DISK, path, { ...options, decode: decodeText });
}
