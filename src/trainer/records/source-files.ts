/**
 * Rows that a source gives in addition to its trajectories, such as the programs that a policy invented: `source/<name>.jsonl`, one line each, with its step. As in
 * `metrics.jsonl`, a resumed run drops the lines of the steps that it takes again, so that no line is there twice.
 */
import { join } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { keepLines, type Line, LineAppender } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { count, object } from '../../schemas/json-schema.ts';
import { parseWire } from '../../schemas/results.ts';
import type { TrajectoryBatch } from '../trajectory-source.ts';
import { recoverLines } from './recover-lines.ts';

export type SourceRows = NonNullable<TrajectoryBatch['records']>;

export interface SourceFilesOptions {
  /** Lines of later steps are dropped, because a resumed run takes them again. */
  readonly through: number;
  /** Removes secrets from the rows' texts. @default no change */
  readonly redact?: (text: string) => string;
}

const NAME = /^([A-Za-z0-9-]+)\.jsonl$/;
const LineSchema = object({ step: count });

/** True for a name that a file can have. */
export function isSourceFileName(name: string): boolean {
  return NAME.test(`${name}.jsonl`);
}

export class SourceFiles implements AsyncDisposable {
  readonly #directory: string;
  readonly #redact: (text: string) => string;
  readonly #files = new Map<string, LineAppender>();

  private constructor(directory: string, { redact = (text) => text }: SourceFilesOptions) {
    this.#directory = directory;
    this.#redact = redact;
  }

  /** Repairs torn ends and drops the lines after `through`. Throws ResultsError for a damaged line. Creates nothing. Needs the run's lock. */
  static async open(directory: string, options: SourceFilesOptions): Promise<SourceFiles> {
    for (const path of await sourceFiles(directory)) await keepThrough(path, options.through);
    return new SourceFiles(directory, options);
  }

  /** Writes the rows before it resolves, as `metrics.jsonl` is written. Throws ResultsError if it cannot. */
  async append(step: number, rows: SourceRows): Promise<void> {
    const filled = Object.entries(rows).filter(([, own]) => own.length > 0);
    if (filled.length === 0) return;
    makeFolder(this.#directory);
    const clean = (_key: string, value: unknown) => (typeof value === 'string' ? this.#redact(value) : value);
    for (const [name, own] of filled) (await this.#file(name)).append(own.map((row) => JSON.stringify({ step, ...row }, clean)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const files = [...this.#files.values()];
    this.#files.clear();
    for (const file of files) await file.close();
  }

  async #file(name: string): Promise<LineAppender> {
    const file = this.#files.get(name) ?? (await LineAppender.open(join(this.#directory, `${name}.jsonl`)));
    this.#files.set(name, file);
    return file;
  }
}

/** Paths of the files, by name; none if there is no folder. */
export async function sourceFiles(directory: string): Promise<string[]> {
  return (await namesIn(directory))
    .filter((name) => NAME.test(name))
    .toSorted()
    .map((name) => join(directory, name));
}

async function keepThrough(path: string, through: number): Promise<void> {
  const kept: Line[] = [];
  let lines = 0;
  await recoverLines<{ readonly step: number }>(path, {
    parse: (text) => parseWire(LineSchema, text),
    visit: ({ step }, line) => {
      lines++;
      // Without the text, to save memory in a long run.
      if (step <= through) kept.push({ ...line, text: '' });
    },
    expected: 'a row of a source with its step',
    remedy: 'delete that line; the run does not read it',
  });
  if (kept.length < lines) await keepLines(path, kept);
}
