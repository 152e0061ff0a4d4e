/** Reads small text and JSON files by their path. Throws errors of the caller's own class. */
import { openRegularFile } from './regular-file.ts';
import { type JsonObject, type ReadFileOptions, readSourceJsonIfPresent, readSourceText, readSourceTextIfPresent } from './source-text.ts';

export type { JsonObject, ReadFileOptions } from './source-text.ts';

/** Names are paths. */
const DISK = { pathOf: (path: string) => path, open: openRegularFile };

/** Returns null for a missing file. */
export function readJsonObjectIfPresent(path: string, options: ReadFileOptions): Promise<JsonObject | null> {
  return readSourceJsonIfPresent(DISK, path, options);
}

/** Rejects with the error that `makeError` makes. */
export function readText(path: string, options: ReadFileOptions): Promise<string> {
  return readSourceText(DISK, path, options);
}

/** Returns null for a missing file. A path through a file counts as missing. */
export function readTextIfPresent(path: string, options: ReadFileOptions): Promise<string | null> {
  return readSourceTextIfPresent(DISK, path, options);
}
