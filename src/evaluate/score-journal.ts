/**
 * `scoring.jsonl.partial` next to a run: the scores that an unfinished vf-score has found. The run's own files change only at the end, each by a rename, so a kill
 * leaves the old or the new one; the next process goes on from here.
 */
import { existsSync } from 'node:fs';
import { stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ifThere } from '../files/if-there.ts';
import { ConfigError } from '../core/errors.ts';
import { LineAppender, readLines } from '../files/json-lines.ts';
import { runFiles } from './run-files.ts';
import type { RescoredLines } from './rescored-lines.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

interface Header {
  /** Digest of everything that a score depends on. */
  readonly options: string;
  /** Size and time of the results that are being scored. */
  readonly results: string;
}

export interface FoundLines extends RescoredLines {
  /** Its lines contain the error. A later process tries it again. */
  readonly failed?: true;
  /** SHA-256 of the result's line before. */
  readonly before: string;
}

interface JournalLine extends FoundLines {
  readonly rollout_id: string;
}

export class ScoreJournal {
  readonly path: string;
  readonly #appender: LineAppender;
  /** The scores that were found, by rollout id. */
  readonly found: Map<string, FoundLines>;
  /** The time at which all scores had been found and the files of the run were being replaced; null until then. */
  #closedAt: string | null;

  private constructor(path: string, appender: LineAppender, found: Map<string, FoundLines>, closedAt: string | null) {
    this.path = path;
    this.#appender = appender;
    this.found = found;
    this.#closedAt = closedAt;
  }

  get closedAt(): string | null {
    return this.#closedAt;
  }

  /** Begins a journal, so that a folder that was copied for a scoring names that scoring. */
  static async begin(directory: string, options: string): Promise<void> {
    await writeFile(journalPath(directory), `${JSON.stringify(await headerOf(directory, options))}\n`);
  }

  /** Throws ConfigError if an unfinished scoring with other options is there, or the run has changed since. */
  static async open(directory: string, options: string): Promise<ScoreJournal> {
    const path = journalPath(directory);
    const header = await headerOf(directory, options);
    const before = existsSync(path) ? await readJournal(path) : null;
    if (before !== null && before.header.options !== options) {
      // Once files are being replaced, some may be new and others old.
      const remedy = before.closedAt === null ? `, or delete ${path}` : ', since it was stopped while it replaced the files of the run';
      throw new ConfigError(`${directory} has an unfinished scoring with other options. Run vf-score with the same options${remedy}.`);
    }
    if (before !== null && before.closedAt === null && before.header.results !== header.results) throw changedSince(directory);
    if (before === null && existsSync(path)) await unlink(path);
    const appender = await LineAppender.open(path);
    if (before === null) appender.append([JSON.stringify(header)]);
    else if (before.isTorn) appender.append(['']);
    const { found = new Map<string, FoundLines>(), closedAt = null } = before ?? {};
    if (closedAt === null) for (const [id, { failed }] of found) if (failed === true) found.delete(id);
    return new ScoreJournal(path, appender, found, closedAt);
  }

  add(id: string, lines: FoundLines): void {
    this.found.set(id, lines);
    this.#appender.append([JSON.stringify({ rollout_id: id, ...lines } satisfies JournalLine)]);
  }

  /** From here on, a process that is killed is finished by the next one. */
  close(): void {
    if (this.#closedAt !== null) return;
    this.#closedAt = new Date().toISOString();
    this.#appender.append([JSON.stringify({ closed: true, at: this.#closedAt })]);
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

export function changedSince(directory: string): ConfigError {
  return new ConfigError(`${directory} has changed since its unfinished scoring began. Delete ${journalPath(directory)} and score the run again.`);
}

export interface UnfinishedScoring {
  /** Digest of its options. */
  readonly options: string;
  /** It had found every score and was replacing the files of the run. */
  readonly isReplacing: boolean;
  /** It has found at least one score. */
  readonly hasScores: boolean;
}

/** The remains of a stopped vf-score in a folder; null if there are none. */
export async function unfinishedScoring(directory: string): Promise<UnfinishedScoring | null> {
  const path = journalPath(directory);
  const journal = existsSync(path) ? await readJournal(path) : null;
  return journal === null ? null : { options: journal.header.options, isReplacing: journal.closedAt !== null, hasScores: journal.found.size > 0 };
}

async function headerOf(directory: string, options: string): Promise<Header> {
  return { options, results: await fileState(runFiles(directory).results) };
}

/** Size and time of the rollouts that are scored. Throws ConfigError if the file is missing. */
export async function fileState(path: string): Promise<string> {
  const found = await ifThere(path, (file) => stat(file));
  if (found === null) throw new ConfigError(`The file ${path} is missing, so no rollout can be scored.`);
  return `${found.size} bytes at ${found.mtimeMs}`;
}

interface ReadJournal {
  readonly header: Header;
  readonly found: Map<string, FoundLines>;
  readonly closedAt: string | null;
  readonly isTorn: boolean;
}

/** Null for a journal whose first line was never written whole. */
async function readJournal(path: string): Promise<ReadJournal | null> {
  let header: Header | null = null;
  const found = new Map<string, FoundLines>();
  let closedAt: string | null = null;
  let isTorn = false;
  for await (const { text, isWhole } of readLines(path)) {
    isTorn = !isWhole;
    // Null for a torn line.
    const value = jsonOrNull(text) as Record<string, unknown> | null;
    if (value === null) continue;
    if (header === null) header = value as unknown as Header;
    else if (value['closed'] === true) closedAt = typeof value['at'] === 'string' ? value['at'] : new Date().toISOString();
    else {
      const { rollout_id: id, ...lines } = value as unknown as JournalLine;
      found.set(id, lines);
    }
  }
  return header === null ? null : { header, found, closedAt, isTorn };
}
