/** Loads the objects of a data set whose rows are not questions, such as programs. Environments interpret them. */
import { ConfigError } from '../core/errors.ts';
import { objectOf, readRecords } from '../files/records.ts';
import { findRows, rowsSource, type RowsSource } from './find-rows.ts';

export interface LoadRecordsOptions {
  /** A bundled set (`mini-python`), a file of rows (`.jsonl`, `.json`, `.csv`, `.tsv` or `.parquet`), or a data set on the Hugging Face hub (`org/name`, `org/name/config`, optionally with `@revision`). */
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
  const found = await findRows(dataset, split, { ...options, offers: `${offers.join(', ')} (bundled)` });
  const records: DataRecord[] = [];
  for await (const record of readRecords(found.path, { limit, ...(signal && { signal }) })) {
    records.push({ fields: objectOf(record), place: record.place });
    if (records.length >= limit) break;
  }
  if (records.length === 0) throw new ConfigError(`${dataset} contains no records. Give a file with rows.`);
  return { records, source: await rowsSource(found, records.length) };
}
