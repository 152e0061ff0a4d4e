/** Rows of Parquet files as plain JSON, one group of rows in memory at a time. An integer that JavaScript cannot hold exactly becomes text, as `readExactJson` does. */
import type { FileHandle } from 'node:fs/promises';
import { ConfigError, libraryText, VfError } from '../core/errors.ts';
import { firstRepeated } from '../core/first-repeated.ts';
import { PARSERS, rowDecoder } from './parquet-values.ts';
import { openRegularFile } from './regular-file.ts';

type ParquetRow = Readonly<Record<string, unknown>>;

interface ParquetRowsOptions {
  /** Maximum of rows. @default all */
  readonly limit?: number;
}

/** The rows in order: integers as numbers, those beyond 2^53, decimals, dates and times as text. Rejects with ConfigError for a file that is not Parquet. */
export async function* parquetRows(path: string, { limit = Infinity }: ParquetRowsOptions = {}): AsyncGenerator<ParquetRow, void> {
  await using handle = await openRegularFile(path);
  const { size } = await handle.stat();
  if (size === 0) throw new ConfigError(`${path} is empty and not a Parquet file. Write or download it again.`);
  const [{ parquetMetadataAsync, parquetReadObjects, parquetSchema }, { compressors }] = await Promise.all([
    import('hyparquet'),
    import('hyparquet-compressors'),
  ]);
  const file = { byteLength: size, slice: (start: number, end = size) => bytesOf(handle, start, end) };
  const metadata = await orConfigError(path, parquetMetadataAsync(file));
  const schema = parquetSchema(metadata);
  const twice = firstRepeated(schema.children.map(({ element }) => element.name));
  if (twice !== undefined) throw new ConfigError(`${path} has two columns ${JSON.stringify(twice)}. Rename one.`);
  const decode = rowDecoder(schema);
  let rowStart = 0;
  for (const { num_rows: count } of metadata.row_groups) {
    const rowEnd = Math.min(rowStart + Number(count), limit);
    if (rowEnd <= rowStart) continue;
    const rows = await orConfigError(path, parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd, parsers: PARSERS, utf8: false }));
    for (const row of rows) yield decode(row);
    rowStart = rowEnd;
  }
}

async function bytesOf(file: FileHandle, start: number, end: number): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(end - start);
  for (let at = 0; at < bytes.length;) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at);
    if (bytesRead === 0) throw new RangeError('the file ends early');
    at += bytesRead;
  }
  return bytes.buffer;
}

async function orConfigError<T>(path: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`${path} cannot be read as Parquet: ${libraryText(cause)}`, { cause });
  }
}
