/**
 * `trace.jsonl` of a run. The lines of a rollout are written in one piece when the rollout is recorded, so nothing is kept in memory, and a rollout that is
 * never recorded leaves nothing. A failed write is counted and never thrown: a run does not depend on its trace.
 *
 * A rollout that is played again, because it failed or a process died, has a second piece. The later one counts, and a resumed run drops the earlier one.
 */
import { TraceLineSchema, type WireTraceLine } from '../schemas/trace-line.ts';
import { parseWire } from '../schemas/results.ts';
import { keepLines, type Line, LineAppender, readLines } from './json-lines.ts';
import { systemText } from './system-text.ts';

/** The rollouts of a run to which a line belongs. */
export interface TracePlace {
  /** Null in an evaluation. */
  readonly step: number | null;
  readonly phase?: string | undefined;
  /** An evaluation within a training run. @default false */
  readonly isEvaluation?: boolean;
}

export interface TraceFileOptions {
  readonly runId: string;
  /** Facts about the run, for its `run.start`. */
  readonly about: Readonly<Record<string, unknown>>;
  /** Removes secrets from a line's texts. @default no change */
  readonly redact?: <T>(data: T) => T;
  /** In a resumed run, tells whether a rollout on file still counts. @default every one counts */
  readonly isKept?: (place: TracePlace, rolloutId: string) => boolean;
  /** Ids of rollouts of a resumed run that the trace should have, each at one place. Missing ones count as lost. @default none */
  readonly recorded?: ReadonlySet<string>;
  /** Called once, with the reason, when something could not be written. */
  readonly onLoss?: (problem: string) => void;
}

type Fields = Readonly<Record<string, unknown>>;

export class TraceFile {
  readonly #options: TraceFileOptions;
  #file: LineAppender | null = null;
  #lost = 0;
  #problem: string | null = null;

  private constructor(options: TraceFileOptions) {
    this.#options = options;
  }

  /** Drops outdated lines, opens the file for appending and writes `run.start`. Never rejects. Needs the run's lock. */
  static async open(path: string, options: TraceFileOptions): Promise<TraceFile> {
    const trace = new TraceFile(options);
    const { recorded = new Set<string>(), isKept = () => true } = options;
    trace.#lost = recorded.size;
    try {
      const kept = await dropStale(path, isKept);
      trace.#lost = [...recorded].filter((id) => !kept.has(id)).length;
      trace.#file = await LineAppender.open(path);
      const start = { ts: Date.now() / 1000, event: 'run.start', run_id: options.runId, step: null, group_id: null, rollout_id: null, turn: null };
      trace.#file.append([JSON.stringify({ ...start, ...trace.#redacted({ schema_version: 1, ...options.about }) })]);
    } catch (error) {
      trace.#fail(error);
    }
    return trace;
  }

  /** Number of rollouts that the trace lacks. */
  get lost(): number {
    return this.#lost;
  }

  /** Describes the losses and their cause, for a notice; null if there are none. */
  get notice(): string | null {
    if (this.#problem !== null && this.#lost === 0) return `The end of trace.jsonl may be missing: ${this.#problem}`;
    if (this.#lost === 0) return null;
    const problem = this.#problem ?? 'an earlier process of this run did not write them';
    return `trace.jsonl lacks ${this.#lost === 1 ? '1 rollout' : `${this.#lost} rollouts`}: ${problem}`;
  }

  /** Adds the lines of a rollout. Never throws. */
  add({ step, phase, isEvaluation = false }: TracePlace, records: readonly Fields[]): void {
    if (records.length === 0) return;
    const place = { step, ...(phase === undefined ? {} : { phase }), ...(isEvaluation ? { evaluation: true } : {}) };
    try {
      if (this.#file === null) throw new Error(this.#problem ?? 'it is closed');
      this.#file.append(records.map((record) => JSON.stringify(this.#line(record, place))));
    } catch (error) {
      this.#lost += 1;
      this.#fail(error);
    }
  }

  /** Never rejects. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.close().catch((error: unknown) => this.#fail(error));
  }

  /** Ids are never redacted: they identify rollouts. */
  #line({ ts, event, group_id, rollout_id, turn, ...fields }: Fields, { step, ...rest }: Fields): Fields {
    return { ts, event, run_id: this.#options.runId, step, group_id, rollout_id, turn, ...rest, ...this.#redacted(fields) };
  }

  #redacted(fields: Fields): Fields {
    return this.#options.redact?.(fields) ?? fields;
  }

  #fail(error: unknown): void {
    if (this.#problem !== null) return;
    this.#problem = systemText(error);
    this.#options.onLoss?.(this.#problem);
  }
}

interface Piece {
  /** Id of the rollout. */
  readonly id: string;
  readonly lines: Line[];
  readonly play: number;
  isWhole: boolean;
}

/** Keeps starts of runs and, of each rollout, the last whole piece if it still counts. Resolves to the ids of the rollouts that it keeps. */
async function dropStale(path: string, isKept: NonNullable<TraceFileOptions['isKept']>): Promise<ReadonlySet<string>> {
  const starts: Line[] = [];
  const pieces = new Map<string, Piece>();
  let found = 0;
  for await (const line of readLines(path)) {
    found += 1;
    const parsed = parseWire(TraceLineSchema, line.text);
    if ('problem' in parsed || !line.isWhole) continue;
    const place = { ...line, text: '' };
    const { rollout_id: id, play = 0 } = parsed.value;
    if (id === null) starts.push(place);
    else if (isKept(placeOf(parsed.value), id)) addLine(pieces, parsed.value, { id, place, play });
  }
  const whole = [...pieces.values()].filter(({ isWhole }) => isWhole);
  const kept = [...starts, ...whole.flatMap(({ lines }) => lines)];
  if (kept.length < found)
    await keepLines(
      path,
      kept.toSorted((a, b) => a.start - b.start),
    );
  return new Set(whole.map(({ id }) => id));
}

function addLine(pieces: Map<string, Piece>, line: WireTraceLine, { id, place, play }: Pick<Piece, 'id' | 'play'> & { readonly place: Line }): void {
  const key = JSON.stringify([line.step, line.phase, line.evaluation, id]);
  let piece = pieces.get(key);
  if (piece === undefined || play > piece.play || (play === piece.play && line.seq === 0)) {
    piece = { id, lines: [], play, isWhole: false };
    pieces.set(key, piece);
  }
  if (play < piece.play) return;
  piece.lines.push(place);
  if (line.lines === piece.lines.length) piece.isWhole = true;
}

function placeOf({ step, phase, evaluation = false }: WireTraceLine): TracePlace {
  return { step, phase, isEvaluation: evaluation };
}
