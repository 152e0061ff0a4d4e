/** Sizes and checksums of the files below `vectors`, which LanceDB itself does not check: a flipped bit would change a passage, its id or its place among the hits. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { crc32 } from 'node:zlib';
import { throwIfAborted } from '../../core/abort.ts';
import { openRegularFile } from '../../files/regular-file.ts';

export type Checksums = Readonly<Record<string, { readonly bytes: number; readonly crc32: number }>>;

const PIECE_BYTES = 2 ** 22;

/** By path below the folder, with `/`. Reads every file; rejects with CancelledError if stopped. */
export async function vectorChecksums(folder: string, signal: AbortSignal): Promise<Checksums> {
  const entries = existsSync(folder) ? await readdir(folder, { recursive: true, withFileTypes: true }) : [];
  const paths = entries.filter((entry) => !entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  const sums: Record<string, { bytes: number; crc32: number }> = {};
  for (const path of paths.toSorted()) sums[relative(folder, path).replaceAll(sep, '/')] = await checksum(path, signal);
  return sums;
}

/** The first difference, as the end of a sentence; null if the folder holds exactly what was written. */
export async function vectorFault(folder: string, written: Checksums, signal: AbortSignal): Promise<string | null> {
  const found = await vectorChecksums(folder, signal);
  const missing = Object.keys(written).find((name) => !Object.hasOwn(found, name));
  if (missing !== undefined) return `it lacks vectors/${missing}`;
  const stranger = Object.keys(found).find((name) => !Object.hasOwn(written, name));
  if (stranger !== undefined) return `vectors/${stranger} does not belong to it`;
  const damaged = Object.entries(written).find(([name, { bytes, crc32: sum }]) => found[name]!.bytes !== bytes || found[name]!.crc32 !== sum);
  return damaged === undefined ? null : `vectors/${damaged[0]} is damaged: its checksum differs`;
}

async function checksum(path: string, signal: AbortSignal): Promise<{ readonly bytes: number; readonly crc32: number }> {
  await using file = await openRegularFile(path);
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  let bytes = 0;
  let sum = 0;
  for (;;) {
    throwIfAborted(signal, 'The check of an index was stopped');
    const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, null);
    if (bytesRead === 0) return { bytes, crc32: sum };
    bytes += bytesRead;
    sum = crc32(piece.subarray(0, bytesRead), sum);
  }
}
