/** Files that are packed as a whole, which the end of their name says. They are read from start to end: no part of one can be read alone. */
import { pipeline, type Readable, type Transform } from 'node:stream';
import zlib from 'node:zlib';
import { ConfigError, ResultsError, thrownText } from '../core/errors.ts';
import { streamRegularFile } from './regular-file.ts';

/** Node unpacks zstd from 22.15 on. */
const UNPACKERS: Readonly<Record<string, (() => Transform) | undefined>> = {
  gz: zlib.createGunzip,
  br: zlib.createBrotliDecompress,
  zst: zlib.createZstdDecompress,
};

/** Tells whether `streamUnpacked` unpacks the file. */
export function isPacked(path: string): boolean {
  return Object.hasOwn(UNPACKERS, endOf(path));
}

/**
 * The file's bytes in pieces of about `pieceBytes`; those of a file `.gz`, `.br` or `.zst` are unpacked. Rejects as `openRegularFile` does, and with ConfigError if
 * this Node cannot unpack it. Read it at once: an error without a reader ends the process. `isDamage` recognises the error of a file that cannot be unpacked.
 */
export async function streamUnpacked(path: string, options: { readonly pieceBytes: number }): Promise<Readable> {
  if (!isPacked(path)) return streamRegularFile(path, options);
  const unpacker = UNPACKERS[endOf(path)];
  if (unpacker === undefined) throw new ConfigError(`Node ${process.versions.node} cannot unpack ${path}. Unpack it, or use Node 22.15 or later.`);
  return pipeline(await streamRegularFile(path, options), unpacker(), () => {});
}

/** Tells whether zlib threw it because the bytes are not what they should be, or too few. */
export function isDamage(error: unknown): boolean {
  return /^(?:Z_|ERR__|ZSTD_)/.test(String((error as NodeJS.ErrnoException | null)?.code));
}

/** @param also a further remedy @default none */
export function unpackError(path: string, cause: unknown, also = ''): ResultsError {
  return new ResultsError(`${path} is damaged and cannot be unpacked (${thrownText(cause)}). Restore it from a copy${also}.`, { cause });
}

function endOf(path: string): string {
  return /\.([^./\\]*)$/.exec(path)?.[1] ?? '';
}
