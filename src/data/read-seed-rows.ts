/** Reads rows of LIMO's shape one by one; leaves out unusable ones, and counts them. */
import { ConfigError } from '../core/errors.ts';
import { readRecords } from '../files/records.ts';
import { findRows, type FoundRows } from './find-rows.ts';
import { type LimoRow, parseLimoRow } from './limo-rows.ts';
import { type SeedForm, seedRow, type SeedRowOptions, seedRowProblem } from './seed-row.ts';
import type { PromptRow } from '../schemas/demonstration-row.ts';

export interface SeedSource {
  readonly data: string;
  readonly split: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Rejects with ConfigError for a name that is unknown, and for a data set of the hub that cannot be fetched. */
export function findSeedRows({ data, split, env, signal }: SeedSource): Promise<FoundRows> {
  return findRows(data, split, { env, signal, takesOwnName: true, offers: 'worked-problems (bundled), GAIR/LIMO (from the hub)' });
}

export interface SeedOptions extends Omit<SeedRowOptions, 'id'> {
  /** The greatest number of rows to use. @default all */
  readonly limit?: number;
  /** Tokens of a row, with its prompt. */
  readonly measure: ((row: PromptRow) => Promise<number>) | null;
  /** A longer row is left out. Only with `measure`. */
  readonly mostTokens: number;
}

export interface SeedCounts {
  readonly written: number;
  /** Lines that are not a usable row. */
  readonly skipped: number;
  /** The first of them, with their line and their fault. */
  readonly problems: readonly string[];
  /** Usable rows that are longer than `mostTokens`. */
  readonly long: number;
  /** Tokens of the longest row that was written; null if nothing was measured. */
  readonly longestTokens: number | null;
}

const MOST_PROBLEMS = 3;

/** Gives each usable row to `write`. Rejects with ConfigError if none is left. */
export async function readSeedRows(
  { path, name, file }: FoundRows,
  { limit = Infinity, measure, mostTokens, ...options }: SeedOptions,
  { write, signal }: { readonly write: (row: PromptRow) => Promise<void>; readonly signal: AbortSignal },
): Promise<SeedCounts> {
  const problems: string[] = [];
  let [written, skipped, long, longest] = [0, 0, 0, 0];
  const skip = (line: number, problem: string) => {
    skipped += 1;
    if (problems.length < MOST_PROBLEMS) problems.push(`line ${line} (${problem})`);
  };
  for await (const { value, number: line } of readRecords(path, { signal, onBadLine: skip })) {
    const usable = usableRow(value, options.form);
    if (typeof usable === 'string') {
      skip(line, usable);
      continue;
    }
    const row = seedRow(usable, { ...options, id: `${name}:${line}` });
    const tokens = measure === null ? 0 : await measure(row);
    if (tokens > mostTokens) {
      long += 1;
      continue;
    }
    longest = Math.max(longest, tokens);
    await write(row);
    written += 1;
    if (written >= limit) break;
  }
  const counts = { written, skipped, problems, long, longestTokens: measure === null ? null : longest };
  if (written === 0) throw new ConfigError(noneLeft(file, counts, mostTokens));
  return counts;
}

/** The row, or the reason why it cannot be used. */
function usableRow(value: unknown, form: SeedForm): LimoRow | string {
  const parsed = parseLimoRow(value);
  return parsed.ok ? (seedRowProblem(parsed.row, form) ?? parsed.row) : parsed.problem;
}

function noneLeft(file: string, { skipped, problems, long }: SeedCounts, mostTokens: number): string {
  const limit = mostTokens === 1 ? '1 token' : `${mostTokens} tokens`;
  if (skipped + long === 0) return `${file} has no rows. Give a file with one {"question", "solution", "answer"} per line`;
  if (skipped === 0) return `Every row of ${file} is longer than ${limit}. Choose a model with a longer context, or raise --max-length`;
  const others = long === 0 ? '' : ` or is longer than ${limit}`;
  return `Every line of ${file} is unusable${others}: ${problemsText(skipped, problems)}. Give one {"question", "solution", "answer"} per line, each of them text`;
}

/** `line 1 (it has no answer), line 7 (it is not JSON), ...` */
export function problemsText(skipped: number, problems: readonly string[]): string {
  return [...problems, ...(skipped > problems.length ? ['...'] : [])].join(', ');
}
