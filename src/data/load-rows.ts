/**
 * Loads numbered questions by name: from a bundled data set, a FlashRAG source on the Hugging Face hub, any other data set there, or a file.
 * Environments interpret the rows.
 */
import { existsSync } from 'node:fs';
import { checkOptions } from '../core/check-options.ts';
import { CancelledError, ConfigError } from '../core/errors.ts';
import { firstRepeated } from '../core/first-repeated.ts';
import { readRecords } from '../files/records.ts';
import { doubtfulNotices } from '../schemas/golden-answers.ts';
import { parseQuestion, type QuestionColumns, type QuestionRow } from '../schemas/question-row.ts';
import { findRows, rowsSource, type RowsSource } from './find-rows.ts';

export interface LoadRowsOptions {
  /**
   * A bundled set (`nq-mini`, `fact-world`), a FlashRAG source (`nq`, `hotpotqa`, ...), a hub data set (`org/name`, `org/name/config`,
   * optionally with `@revision`), or a file of rows: `.jsonl`, `.json`, `.csv`, `.tsv` or `.parquet`. Several names, separated by commas, are loaded one after another.
   */
  readonly dataset: string;
  /** `train`, `test` (on the hub it falls back to `dev`, then `train`), or another split of the set (`dev`; `extra` of nq-mini). @default test */
  readonly split?: string;
  /** Maximum of rows, over all names together. @default all */
  readonly limit?: number;
  /** Names of columns that are not among the known ones, such as `{ question: 'q', answer: 'a' }`. @default the known names (docs/data.md) */
  readonly columns?: QuestionColumns;
  /** False: rows may lack golden answers, which are then an empty list. @default true */
  readonly needsAnswers?: boolean;
  /** Cache folder for hub files. @default that of Hugging Face's own tools, from `env` */
  readonly cacheDir?: string;
  /** Environment variables. Reads `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME` and `XDG_CACHE_HOME`. @default none */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
}

export interface RowsProvenance {
  readonly dataset: string;
  readonly split: string;
  readonly rows: number;
  readonly sources: readonly RowsSource[];
}

/**
 * Throws ConfigError if a name is unknown, a file is missing, or a line is not a question.
 *
 * @example
 * const { rows } = await loadRows({ dataset: 'nq-mini', split: 'train', limit: 100 });
 */
export async function loadRows(
  options: LoadRowsOptions,
): Promise<{ rows: readonly QuestionRow[]; provenance: RowsProvenance; /** Lines for the user. */ notices: readonly string[] }> {
  const { dataset, split = 'test', limit = Infinity, signal } = options;
  if (limit !== Infinity && (!Number.isInteger(limit) || limit < 1)) throw new ConfigError(`limit must be an integer of at least 1, got ${limit}.`);
  const { columns = {}, needsAnswers = true } = options;
  checkOptions('columns', columns, { question: 'text', answer: 'text', id: 'text' });
  const names = splitNames(dataset);
  const rows: QuestionRow[] = [];
  const sources: RowsSource[] = [];
  for (const name of names) {
    if (rows.length >= limit) break;
    if (signal?.aborted) throw new CancelledError(`Stopped loading ${dataset}`, { cause: signal.reason });
    const source = await findRows(name, split, options);
    const before = rows.length;
    await readRows(rows, {
      path: source.path,
      name: source.name,
      split,
      limit,
      merged: names.length > 1,
      columns,
      needsAnswers,
      ...(signal && { signal }),
    });
    if (rows.length === before)
      throw new ConfigError(
        source.file === name
          ? `${name} contains no questions.`
          : `${source.file} (${name}, split ${split}) contains no questions. Choose another data set or split.`,
      );
    sources.push(await rowsSource(source, rows.length - before));
  }
  const named = withUniqueIds(rows);
  const doubtful = doubtfulNotices(named.map(({ id, golden_answers: answers }) => ({ where: `the row ${id}`, answers })));
  return { rows: named, provenance: { dataset, split, rows: rows.length, sources }, notices: [...repeatedIds(rows, named), ...doubtful] };
}

/** A file name may contain a comma, so the whole string is tried as a path first. */
function splitNames(dataset: string): string[] {
  const names = existsSync(dataset) ? [dataset] : dataset.split(',').map((name) => name.trim());
  if (names.some((name) => name === ''))
    throw new ConfigError(`${JSON.stringify(dataset)} contains an empty data set name. Separate names by single commas.`);
  const twice = firstRepeated(names);
  if (twice !== undefined) throw new ConfigError(`The data set ${twice} is named twice. Name it once.`);
  return names;
}

interface ReadOptions {
  readonly path: string;
  readonly name: string;
  readonly split: string;
  readonly limit: number;
  readonly merged: boolean;
  readonly columns: QuestionColumns;
  readonly needsAnswers: boolean;
  readonly signal?: AbortSignal;
}

async function readRows(rows: QuestionRow[], { path, name, split, limit, merged, columns, needsAnswers, signal }: ReadOptions): Promise<void> {
  const usedFor = split === 'train' || split === 'extra' ? 'train' : 'test';
  let index = 0;
  for await (const { value, place, header } of readRecords(path, { limit: limit - rows.length, ...(signal && { signal }) })) {
    const parsed = parseQuestion(value, { columns, header, needsAnswers });
    if (!parsed.ok) throw new ConfigError(`${place}: ${parsed.problem}`);
    const { id, question, golden_answers, data_source, fields } = parsed.question;
    const ownId = id ?? `${split}_${index}`;
    rows.push({
      ...fields,
      id: merged ? `${name}/${ownId}` : ownId,
      question,
      golden_answers,
      data_source: data_source ?? name,
      index,
      split: usedFor,
    });
    index += 1;
    if (rows.length >= limit) return;
  }
}

/** Results and resume are keyed by id, so a repeated id gets a suffix: `#2`, `#3`. */
function withUniqueIds(rows: readonly QuestionRow[]): readonly QuestionRow[] {
  const taken = new Set(rows.map((row) => row.id));
  if (taken.size === rows.length) return rows;
  const counts = new Map<string, number>();
  return rows.map((row) => {
    let count = (counts.get(row.id) ?? 0) + 1;
    if (count > 1) while (taken.has(`${row.id}#${count}`)) count++;
    counts.set(row.id, count);
    if (count === 1) return row;
    const id = `${row.id}#${count}`;
    taken.add(id);
    return { ...row, id };
  });
}

/** A line about the rows that `withUniqueIds` has renamed; none without such rows. */
function repeatedIds(rows: readonly QuestionRow[], named: readonly QuestionRow[]): string[] {
  const renamed = named.filter(({ id }, i) => id !== rows[i]!.id);
  if (renamed.length === 0) return [];
  const first = rows[named.indexOf(renamed[0]!)]!.id;
  const subject = renamed.length === 1 ? '1 row has the id' : `${renamed.length} rows have the id`;
  return [
    `${subject} of an earlier row, such as ${JSON.stringify(first)}: results call the second ${JSON.stringify(renamed[0]!.id)}. Give each row its own id.`,
  ];
}
