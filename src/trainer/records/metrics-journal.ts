/** `metrics.jsonl`: one flat line per step and per evaluation. Every name is defined in `metrics.ts`. */
import { TrainingError } from '../../core/errors.ts';
import { keepLines, type Line, LineAppender, readLines } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { MetricsLineSchema, type WireMetricsLine } from '../../schemas/training-records.ts';
import { EVALUATION_METRICS, OPEN_PREFIXES, STEP_METRICS, VALIDATION_METRICS } from './metrics.ts';
import type { MetricsRow, RecordedMetricsRow } from '../training-observer.ts';
import { recoverLines } from './recover-lines.ts';

export interface MetricsJournalOptions {
  /** Rows of later steps are dropped, because a resumed run measures them again. Null keeps all. */
  readonly through: number | null;
  /** Clock for the time of a line. @default the system's */
  readonly clock?: () => Date;
  /** Called for every row that is kept, with all of its values. @default ignored */
  readonly onRow?: (row: RecordedMetricsRow) => void;
  /** Called for every row with values that are not finite and become null. @default ignored */
  readonly onNotFinite?: (note: string) => void;
}

const NAMES: Readonly<Record<MetricsRow['kind'], ReadonlySet<string>>> = {
  step: new Set(STEP_METRICS.map(({ name }) => name)),
  evaluation: new Set(EVALUATION_METRICS.map(({ name }) => name)),
  validation: new Set(VALIDATION_METRICS.map(({ name }) => name)),
};

export class MetricsJournal {
  readonly #file: LineAppender;
  readonly #rows: MetricsRow[];
  readonly #clock: () => Date;
  readonly #onNotFinite: (note: string) => void;

  private constructor(file: LineAppender, rows: MetricsRow[], { clock, onNotFinite }: MetricsJournalOptions) {
    this.#file = file;
    this.#rows = rows;
    this.#clock = clock ?? (() => new Date());
    this.#onNotFinite = onNotFinite ?? (() => {});
  }

  /** Reads the existing rows, repairs a torn end and drops rows after `through`. Throws ResultsError for an invalid line. Needs the run's lock. */
  static async open(path: string, options: MetricsJournalOptions): Promise<MetricsJournal> {
    const { through } = options;
    const kept: { row: MetricsRow; line: Line }[] = [];
    let lines = 0;
    await readRows(path, (row, line) => {
      lines += 1;
      // Without the text, to save memory in a long run.
      if (through !== null && row.step > through) return;
      options.onRow?.(row);
      kept.push({ row: remembered(row), line: { ...line, text: '' } });
    });
    if (kept.length < lines)
      await keepLines(
        path,
        kept.map(({ line }) => line),
      );
    return new MetricsJournal(
      await LineAppender.open(path),
      kept.map(({ row }) => row),
      options,
    );
  }

  /** The recorded rows, in file order; those of kind `step` without their values. */
  get rows(): readonly MetricsRow[] {
    return this.#rows;
  }

  /**
   * Writes the row to the file. Throws TrainingError for a name that `metrics.ts` does not define. A value that is not finite becomes null and is
   * reported: JSON cannot hold it, and a reader must not take it for a measurement. Returns the row as written.
   */
  append({ kind, step, values }: MetricsRow): RecordedMetricsRow {
    const finite: Record<string, number | null> = {};
    for (const [name, value] of Object.entries(values)) {
      if (!NAMES[kind].has(name) && !OPEN_PREFIXES.some((prefix) => name.startsWith(prefix))) {
        throw new TrainingError(`"${name}" is not a metric of a line of kind "${kind}"; define it in src/trainer/records/metrics.ts or leave it out`);
      }
      finite[name] = value !== null && Number.isFinite(value) ? value : null;
    }
    // They mostly have one cause, such as a large reward.
    const lost = Object.keys(values).filter((name) => values[name] !== null && finite[name] === null);
    if (lost.length === 1) this.#onNotFinite(`${lost[0]} of ${kind} ${step} is ${values[lost[0]!]}; it is recorded as null`);
    else if (lost.length > 1) this.#onNotFinite(`${lost.join(', ')} of ${kind} ${step} are not finite numbers; they are recorded as null`);
    const time = this.#clock().toISOString();
    this.#file.append([JSON.stringify({ kind, step, time, ...finite })]);
    const row = { kind, step, time, values: finite };
    this.#rows.push(remembered(row));
    return row;
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** A run of thousands of steps would fill the memory with values that are never requested from the journal. */
function remembered({ kind, step, values }: MetricsRow): MetricsRow {
  return { kind, step, values: kind === 'step' ? {} : values };
}

function readRows(path: string, visit: (row: RecordedMetricsRow, line: Line) => void): Promise<void> {
  return recoverLines<WireMetricsLine>(path, {
    parse: (text) => parseWire(MetricsLineSchema, text),
    visit: ({ kind, step, time, ...values }, line) => visit({ kind, step, time, values }, line),
    expected: 'a row of metrics',
    remedy: 'delete that line; metrics are only displayed and plotted',
  });
}

/** Reads a `metrics.jsonl`, possibly of a run in progress; skips torn or unreadable lines and changes nothing. */
export async function readMetrics(path: string): Promise<MetricsRow[]> {
  const rows: MetricsRow[] = [];
  for await (const { text } of readLines(path)) {
    const parsed = parseWire(MetricsLineSchema, text);
    if ('problem' in parsed) continue;
    const { kind, step, time: _, ...values } = parsed.value;
    rows.push({ kind, step, values });
  }
  return rows;
}
