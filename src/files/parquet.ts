/** Rows of Parquet files as plain JSON. An integer that JavaScript cannot hold exactly becomes text, as `readExactJson` does. */
import { readFile } from 'node:fs/promises';
import { ConfigError, thrownText, VfError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { openRegularFile } from './regular-file.ts';

export type ParquetRow = Readonly<Record<string, unknown>>;

export interface ReadParquetOptions {
  /** Maximum of rows. @default all */
  readonly limit?: number;
}

/** The rows in order: integers as numbers, those beyond 2^53 and dates as text. Rejects with ConfigError for a file that is not Parquet. */
export async function readParquet(path: string, { limit = Infinity }: ReadParquetOptions = {}): Promise<ParquetRow[]> {
  // Refuses anything but a regular file, because reading it might never end.
  await (await openRegularFile(path)).close();
  const [{ parquetReadObjects }, { compressors }, bytes] = await Promise.all([import('hyparquet'), import('hyparquet-compressors'), readFile(path)]);
  if (bytes.length === 0) throw new ConfigError(`${path} is empty and not a Parquet file. Write or download it again.`);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  try {
    const rows = await parquetReadObjects({ file, compressors, ...(Number.isFinite(limit) && { rowEnd: limit }) });
    return rows.map((row) => plain(row) as ParquetRow);
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`${path} cannot be read as Parquet: ${thrownText(cause)}`, { cause });
  }
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
}
