/** Rows of a benchmark file, with golden answers that a reply can equal. */
import { existsSync } from 'node:fs';
import { objectOf, RECORD_FILE, readRecords } from '../../files/records.ts';
import { choicesOf, isAnswerColumn, isChoicesColumn } from '../../schemas/question-row.ts';
import { readGoldenAnswers } from '../../schemas/golden-answers.ts';
import { PipelineFileError } from '../pipeline-error.ts';
import { systemText } from '../../files/system-text.ts';

/** The questions of the package's examples, by the names in their parameter files; `vf-pipeline build` copies them. */
const SAMPLES: readonly string[] = ['data/sample_asqa_5.jsonl', 'data/fact-world-5.jsonl'];

export type BenchmarkRow = Readonly<Record<string, unknown>>;

interface ReadBenchmarkOptions {
  /** Maximum of rows. */
  readonly limit: number;
  /** The columns that the pipeline takes. If the choices are among them, prompts list them with letters. */
  readonly columns: readonly string[];
}

/** Rejects with PipelineFileError, also for golden answers that would score 0 on every reply. */
export async function readBenchmarkRows(path: string, { limit, columns }: ReadBenchmarkOptions): Promise<readonly BenchmarkRow[]> {
  if (!RECORD_FILE.test(path)) throw wrong(`The benchmark ${path} must be a .jsonl, .json, .csv, .tsv or .parquet file`);
  try {
    const rows: BenchmarkRow[] = [];
    const isLettered = columns.some(isChoicesColumn);
    for await (const record of readRecords(path, { limit })) {
      if (rows.length >= limit) break;
      rows.push(withGoldenAnswers(objectOf(record), { place: record.place, isLettered }));
    }
    return rows;
  } catch (cause) {
    if (cause instanceof PipelineFileError) throw cause;
    throw wrong(existsSync(path) ? `Cannot read the benchmark ${path}: ${systemText(cause)}` : missing(path), cause);
  }
}

function missing(path: string): string {
  const isSample = SAMPLES.includes(path);
  return `The benchmark ${path} does not exist. ${isSample ? 'Run `vf-pipeline build`, which copies it here, or set' : 'Set'} benchmark.benchmark.path.`;
}

/** The row; places and letters of choices become their texts, or letters where the model sees these. Answers in another form than lists of text are left to the tool that takes them. */
function withGoldenAnswers(row: BenchmarkRow, { place, isLettered }: { readonly place: string; readonly isLettered: boolean }): BenchmarkRow {
  const changed = Object.entries(row)
    .filter(([name, value]) => isAnswerColumn(name) && isTextOrTexts(value))
    .map(([name, value]) => {
      const golden = readGoldenAnswers(value, { name, choices: choicesOf(row), isLettered });
      if (!golden.ok) throw wrong(`${place}: ${golden.problem}`);
      return [name, Array.isArray(value) || name === 'possible_answers' ? golden.answers : golden.answers[0]];
    });
  return changed.length === 0 ? row : { ...row, ...Object.fromEntries(changed) };
}

function isTextOrTexts(value: unknown): boolean {
  return (Array.isArray(value) ? value : [value]).every((each) => typeof each === 'string' || typeof each === 'number');
}

function wrong(message: string, cause?: unknown): PipelineFileError {
  return new PipelineFileError(message, { fault: 'file', cause });
}
