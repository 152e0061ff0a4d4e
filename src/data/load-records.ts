/** Loads the objects of a data set whose rows are no questions, such as programs. Environments interpret them. */
import { ConfigError } from '../core/errors.ts';
import { readParquet } from '../files/parquet.ts';
import { isObject } from '../schemas/is-object.ts';
import { findRows, rowsSource, type RowsSource } from './find-rows.ts';
import { readJsonl } from './jsonl.ts';

export interface LoadRecordsOptions {
  /** A bundled set (`mini-python`), a `.jsonl` or `.parquet` file, or a data set on the Hugging Face hub (`org/name`, `org/name/config`, optionally with `@revision`). */
  readonly dataset: string;
  /** @default test */
  readonly split?: string;
  /** The bundled sets that fit, for the message about an unknown name. @default those of programs */
  readonly offers?: readonly string[];
  /** Splits of bundled sets that hold other records: they are neither offered nor found. @default none */
  readonly foreignSplits?: readonly string[];
  /** Maximum of records. @default all */
  readonly limit?: number;
  /** Cache folder for hub files. @default that of Hugging Face's own tools, from `env` */
  readonly cacheDir?: string;
  /** Environment variables of the hub, as for `loadRows`. @default none */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
}

export interface DataRecord {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Line or row, and file, for messages. */
  readonly place: string;
}

/**
 * The objects of one data set, in order. Throws ConfigError if the name is unknown, the file is missing or empty, or a line is not an object.
 *
 * @example
 * const { records } = await loadRecords({ dataset: 'mini-python', split: 'train' });
 */
export async function loadRecords(options: LoadRecordsOptions): Promise<{ records: readonly DataRecord[]; source: RowsSource }> {
  const { dataset, split = 'test', limit = Infinity, offers = ['mini-python'], signal } = options;
  if (limit !== Infinity && (!Number.isInteger(limit) || limit < 1)) throw new ConfigError(`limit must be an integer of at least 1, got ${limit}.`);
  const found = await findRows(dataset, split, { ...options, takesParquet: true, offers: `${offers.join(', ')} (bundled)` });
  const records = await (found.path.endsWith('.parquet') ? parquetRecords(found.path, limit) : jsonlRecords(found.path, limit, signal));
  if (records.length === 0)
    throw new ConfigError(
      `${dataset} contains no records. ${found.path.endsWith('.parquet') ? 'Give a file with rows.' : 'Write one JSON object per line.'}`,
    );
  return { records, source: await rowsSource(found, records.length) };
}

async function jsonlRecords(path: string, limit: number, signal: AbortSignal | undefined): Promise<DataRecord[]> {
  const records: DataRecord[] = [];
  for await (const { value, line } of readJsonl(path, signal ? { signal } : {})) {
    const place = `Line ${line} of ${path}`;
    if (!isObject(value)) throw new ConfigError(`${place} is not an object. Write one JSON object per line.`);
    records.push({ fields: value, place });
    if (records.length >= limit) break;
  }
  return records;
}

async function parquetRecords(path: string, limit: number): Promise<DataRecord[]> {
  const rows = await readParquet(path, { limit }).catch((cause: unknown) => {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
    throw new ConfigError(`The file ${path} does not exist; correct its path`, { cause });
  });
  return rows.map((fields, i) => ({ fields, place: `Row ${i + 1} of ${path}` }));
}
