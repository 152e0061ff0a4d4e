/**
 * The snapshots of a run: a line for every call with its reply, and for every reply within a call that asks question by question. Lines are appended at once, so
 * that a killed run goes on from there: the same steps are taken again with the replies on file.
 */
import { ConfigError } from '../core/errors.ts';
import { jsonPieces, keepLines, LineAppender, readLines } from '../files/json-lines.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { Values } from './pipeline-server.ts';
import type { Items } from './variable-pool.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

/** The reasons why questions failed, by position in the call's lists. */
export type FailedItems = Readonly<Record<string, string>>;

export interface RecordedCall {
  readonly reply: Values;
  readonly failures: FailedItems;
}

/** One call in progress. */
export interface OpenCall {
  recall(position: number): unknown;
  record(position: number, reply: unknown): void;
  end(reply: Values, failures: FailedItems): void;
}

export interface CallJournal {
  /** A complete call of an earlier process; null if there is none. Throws ConfigError if another call is on file in its place. */
  recorded(number: number, name: string, place: string): RecordedCall | null;
  begin(call: { readonly name: string; readonly place: string; readonly number: number; readonly items: Items }): OpenCall;
}

/** Keeps nothing. */
export const NO_JOURNAL: CallJournal = {
  recorded: () => null,
  begin: () => ({ recall: () => undefined, record: () => {}, end: () => {} }),
};

/** The first line's facts about the run. A run goes on only if they are the same. */
export type JournalHeader = Readonly<Record<string, unknown>>;

export class JournalFile implements CallJournal, AsyncDisposable {
  readonly #lines: LineAppender;
  readonly #path: string;
  readonly #calls: Map<number, Record<string, unknown>>;
  /** Replies within the call that was cut off, by number of the call and position. */
  readonly #parts: Map<string, unknown>;

  private constructor(path: string, lines: LineAppender, earlier: Earlier) {
    this.#path = path;
    this.#lines = lines;
    this.#calls = earlier.calls;
    this.#parts = earlier.parts;
  }

  /** Starts a file, or goes on with the one there. Throws ConfigError if `resume` is set and the file belongs to a different run. */
  static async open(path: string, header: JournalHeader, { resume }: { readonly resume: boolean }): Promise<JournalFile> {
    const earlier = resume ? await readEarlier(path, header) : null;
    const lines = await LineAppender.open(path);
    if (earlier === null) lines.append([JSON.stringify(header)]);
    return new JournalFile(path, lines, earlier ?? { calls: new Map(), parts: new Map() });
  }

  /** Complete calls of earlier processes. */
  get size(): number {
    return this.#calls.size;
  }

  recorded(number: number, name: string, place: string): RecordedCall | null {
    const line = this.#calls.get(number);
    if (line === undefined) return null;
    if (line['step'] !== name || line['place'] !== place) {
      throw new ConfigError(`${this.#path} has the call ${String(line['step'])} where the pipeline makes ${name}; start a new run without -R`);
    }
    // Its values are needed only once.
    this.#calls.delete(number);
    return { reply: line['reply'] as Values, failures: (line['failed'] ?? {}) as FailedItems };
  }

  begin({ name, place, number, items }: { name: string; place: string; number: number; items: Items }): OpenCall {
    const startedAt = performance.now();
    return {
      recall: (position) => this.#parts.get(`${number}/${position}`),
      record: (position, reply) => this.#lines.append([JSON.stringify({ call: number, part: position, reply })]),
      end: (reply, failures) => {
        const seconds = Math.round(performance.now() - startedAt) / 1000;
        const failed = Object.keys(failures).length === 0 ? {} : { failed: failures };
        const about = JSON.stringify({ call: number, step: name, place, ...(items !== null && { questions: items }), seconds, ...failed });
        this.#lines.appendPieces(withReply(about, reply));
      },
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#lines.close();
  }
}

/** `reply` as the last key of the JSON object `about`. */
function* withReply(about: string, reply: Values): Generator<string> {
  yield `${about.slice(0, -1)},"reply":`;
  yield* jsonPieces(reply);
  yield '}';
}

interface Earlier {
  readonly calls: Map<number, Record<string, unknown>>;
  readonly parts: Map<string, unknown>;
}

/** The contents of the file; null if it has no line. Drops a last line that was cut off. */
async function readEarlier(path: string, header: JournalHeader): Promise<Earlier | null> {
  const earlier: Earlier = { calls: new Map(), parts: new Map() };
  const kept = [];
  let isTorn = false;
  for await (const line of readLines(path)) {
    // A line that is not JSON: the disk was full, or the process was killed, within it.
    const value = line.isWhole ? jsonOrNull(line.text) : null;
    if (!isObject(value)) {
      isTorn = true;
      break;
    }
    kept.push({ start: line.start, end: line.end, isWhole: true });
    if (line.number === 1) assertSame(path, value, header);
    else if (value['part'] === undefined) earlier.calls.set(value['call'] as number, value);
    else earlier.parts.set(`${value['call'] as number}/${value['part'] as number}`, value['reply']);
  }
  if (isTorn) await keepLines(path, kept);
  return kept.length === 0 ? null : earlier;
}

function assertSame(path: string, found: JournalHeader, wanted: JournalHeader): void {
  const other = Object.keys(wanted).find((key) => JSON.stringify(found[key]) !== JSON.stringify(wanted[key]));
  if (other === undefined) return;
  throw new ConfigError(
    `${changed(other, found[other], wanted[other])} since the run in ${path} began. Start a new run without -R, or undo the change.`,
  );
}

/** Describes the change, as the beginning of a sentence. */
function changed(key: string, found: unknown, wanted: unknown): string {
  if (key === 'parameters') return 'The parameters have changed';
  if (key !== 'files') return key === 'tools' ? 'The version of the tools has changed' : 'The pipeline has changed';
  const [before, now] = [fieldsOf(found), fieldsOf(wanted)];
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter((name) => before[name] !== now[name]);
  return `${names.join(', ')} ${names.length === 1 ? 'has' : 'have'} changed`;
}
