/**
 * `scoring.jsonl.partial` beside a run: what an unfinished vf-score has found. The run's own files change only at the end, each by a rename, so a kill
 * leaves the old or the new one; the next process goes on from here.
 */
import { existsSync } from 'node:fs';
import { stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { LineAppender, readLines } from '../files/json-lines.ts';
import { runFiles } from './run-files.ts';
import type { RescoredLines } from './rescored-lines.ts';

interface Header {
  /** Digest of everything that a score depends on. */
  readonly options: string;
  /** Size and time of the results that are being scored. */
  readonly results: string;
}

/** `failed`: its lines say why it has no score; a later process tries it again. */
export interface FoundLines extends RescoredLines {
  readonly failed?: true;
}

interface JournalLine extends FoundLines {
  readonly rollout_id: string;
}

export class ScoreJournal {
  readonly path: string;
  readonly #appender: LineAppender;
  /** What was found, by rollout id. */
  readonly found: Map<string, FoundLines>;
  /** All is found, and the files of the run are being replaced. */
  readonly isClosed: boolean;

  private constructor(path: string, appender: LineAppender, found: Map<string, FoundLines>, isClosed: boolean) {
    this.path = path;
    this.#appender = appender;
    this.found = found;
    this.isClosed = isClosed;
  }

  /** Throws ConfigError if an unfinished scoring with other options is there, or the run has changed since. */
  static async open(directory: string, options: string): Promise<ScoreJournal> {
    const path = journalPath(directory);
    const { size, mtimeMs } = await stat(runFiles(directory).results);
    const header: Header = { options, results: `${size} bytes at ${mtimeMs}` };
    const before = existsSync(path) ? await readJournal(path) : null;
    if (before !== null && before.header.options !== options) {
      throw new ConfigError(`${directory} has an unfinished scoring with other options. Run vf-score with the same options, or delete ${path}.`);
    }
    if (before !== null && !before.isClosed && before.header.results !== header.results) {
      throw new ConfigError(`${directory} has changed since its unfinished scoring began. Delete ${path} and score the run again.`);
    }
    if (before === null && existsSync(path)) await unlink(path);
    const appender = await LineAppender.open(path);
    if (before === null) appender.append([JSON.stringify(header)]);
    else if (before.isTorn) appender.append(['']);
    const { found = new Map<string, FoundLines>(), isClosed = false } = before ?? {};
    if (!isClosed) for (const [id, { failed }] of found) if (failed === true) found.delete(id);
    return new ScoreJournal(path, appender, found, isClosed);
  }

  add(id: string, lines: FoundLines): void {
    this.found.set(id, lines);
    this.#appender.append([JSON.stringify({ rollout_id: id, ...lines } satisfies JournalLine)]);
  }

  /** From here on, a process that is killed is finished by the next one. */
  close(): void {
    if (!this.isClosed) this.#appender.append([JSON.stringify({ closed: true })]);
  }

  /** Everything is on disk once this resolves. */
  release(): Promise<void> {
    return this.#appender.close();
  }

  async remove(): Promise<void> {
    await unlink(this.path);
  }
}

export function journalPath(directory: string): string {
  return join(directory, 'scoring.jsonl.partial');
}

interface ReadJournal {
  readonly header: Header;
  readonly found: Map<string, FoundLines>;
  readonly isClosed: boolean;
  readonly isTorn: boolean;
}

/** Null for a journal whose first line was never written whole. */
async function readJournal(path: string): Promise<ReadJournal | null> {
  let header: Header | null = null;
  const found = new Map<string, FoundLines>();
  let isClosed = false;
  let isTorn = false;
  for await (const { text, isWhole } of readLines(path)) {
    isTorn = !isWhole;
    const value = parsed(text);
    if (value === null) continue;
    if (header === null) header = value as unknown as Header;
    else if (value['closed'] === true) isClosed = true;
    else {
      const { rollout_id: id, ...lines } = value as unknown as JournalLine;
      found.set(id, lines);
    }
  }
  return header === null ? null : { header, found, isClosed, isTorn };
}

/** Null for a torn line. */
function parsed(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}
