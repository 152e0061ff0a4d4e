/** Rows of a benchmark file: JSON Lines, a JSON list, or Parquet. Numbers that JavaScript cannot hold exactly are refused, never rounded. */
import { existsSync } from 'node:fs';
import { ConfigError, thrownText } from '../../core/errors.ts';
import { readLines } from '../../files/json-lines.ts';
import { readParquet } from '../../files/parquet.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { isObject } from '../../schemas/is-object.ts';
import { kindOf } from '../../schemas/kind-of.ts';
import { PipelineFileError } from '../pipeline-error.ts';

/** The questions of the package's examples, by the names in their parameter files; `vf-pipeline build` copies them. */
const SAMPLES: readonly string[] = ['data/sample_asqa_5.jsonl', 'data/fact-world-5.jsonl'];

export type BenchmarkRow = Readonly<Record<string, unknown>>;

/** Reads at most `limit` rows. Rejects with PipelineFileError. */
export async function readBenchmarkRows(path: string, limit: number): Promise<readonly BenchmarkRow[]> {
  try {
    if (path.endsWith('.jsonl')) return await jsonLines(path, limit);
    if (path.endsWith('.json')) return (await jsonList(path)).slice(0, limit);
    if (path.endsWith('.parquet')) return await parquetRows(path, limit);
  } catch (cause) {
    if (cause instanceof PipelineFileError) throw cause;
    throw wrong(existsSync(path) ? `Cannot read the benchmark ${path}: ${thrownText(cause)}` : missing(path), cause);
  }
  throw wrong(`The benchmark ${path} must be a .jsonl, .json or .parquet file`);
}

function missing(path: string): string {
  const isSample = SAMPLES.includes(path);
  return `The benchmark ${path} does not exist. ${isSample ? 'Run `vf-pipeline build`, which copies it here, or set' : 'Set'} benchmark.benchmark.path.`;
}

async function jsonLines(path: string, limit: number): Promise<readonly BenchmarkRow[]> {
  const rows: BenchmarkRow[] = [];
  for await (const { text, number } of readLines(path, { remedy: 'name a .jsonl file of questions' })) {
    if (rows.length >= limit) break;
    rows.push(asRow(parsed(text, `${path}, line ${number}`), `${path}, line ${number}`));
  }
  return rows;
}

async function jsonList(path: string): Promise<readonly BenchmarkRow[]> {
  const value = parsed(await readRegularFile(path), path);
  if (!Array.isArray(value)) throw wrong(`${path} must be a list of rows, got ${kindOf(value)}`);
  return value.map((row, i) => asRow(row, `${path}, row ${i + 1}`));
}

async function parquetRows(path: string, limit: number): Promise<readonly BenchmarkRow[]> {
  try {
    return await readParquet(path, { limit });
  } catch (cause) {
    throw cause instanceof ConfigError ? wrong(cause.message, cause) : cause;
  }
}

const LONG_NUMBER = /\d{16}/;

function parsed(text: string, where: string): unknown {
  // V8 passes the text of each number, whose digits the value may have lost.
  const exact = (_key: string, value: unknown, { source }: { readonly source?: string } = {}): unknown => {
    if (typeof value === 'number' && source !== undefined && /^-?\d+$/.test(source) && !Number.isSafeInteger(value)) throw tooLarge(where, source);
    return value;
  };
  try {
    return JSON.parse(text, LONG_NUMBER.test(text) ? exact : undefined);
  } catch (cause) {
    if (cause instanceof PipelineFileError) throw cause;
    throw wrong(`${where} is not JSON`, cause);
  }
}

function asRow(value: unknown, where: string): BenchmarkRow {
  if (isObject(value)) return value;
  throw wrong(`${where} must be an object, got ${kindOf(value)}`);
}

function tooLarge(where: string, number: string): PipelineFileError {
  return wrong(`${where} has the integer ${number}, which is beyond 2^53; store it as text`);
}

function wrong(message: string, cause?: unknown): PipelineFileError {
  return new PipelineFileError(message, { fault: 'file', cause });
}
