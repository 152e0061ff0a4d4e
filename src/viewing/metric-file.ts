/** The lines of a run's `metrics.jsonl`, each evaluation at the step of the version that played it, read on as the file grows. A resumed run drops lines: the file then begins again, and so does the reading. */
import { openInside } from './files-inside.ts';
import { visitLines } from './line-reader.ts';
import { fieldsOf, numberOf, textOf } from './loose-fields.ts';
import { ReadProgress } from './read-progress.ts';
import type { MetricLines } from './view-wire.ts';
import { evaluationPlacer } from '../trainer/records/usable-version.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

type MetricLine = MetricLines['lines'][number];

/** Places of a later beginning are smaller than all of an earlier one. */
const BEGINNING = 2 ** 32;
const MOST_BEGINNINGS = 2 ** 20;

export class MetricFile {
  readonly #directory: string;
  #lines: MetricLine[] = [];
  #place = evaluationPlacer();
  readonly #playedBy = new Map<number, number | null>();
  readonly #progress = new ReadProgress();
  #beginnings = 0;
  #refreshing: Promise<readonly MetricLine[]> | null = null;

  /** @param directory the folder of a training run */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** All lines. */
  lines(): Promise<readonly MetricLine[]> {
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  /** The version that played the evaluation after each step; null if no rollout finished. */
  async playedBy(): Promise<ReadonlyMap<number, number | null>> {
    await this.lines();
    return this.#playedBy;
  }

  /** The lines after `after`, which is the `next` of an earlier answer, or 0 for all. */
  async after(after: number): Promise<Pick<MetricLines, 'lines' | 'next'>> {
    const lines = await this.lines();
    const base = (MOST_BEGINNINGS - this.#beginnings) * BEGINNING;
    const from = after >= base && after < base + BEGINNING ? Math.min(after - base, lines.length) : 0;
    return { lines: lines.slice(from), next: base + lines.length };
  }

  async #refresh(): Promise<readonly MetricLine[]> {
    await using file = await openInside(this.#directory, 'metrics.jsonl');
    if (file === null) return this.#lines;
    const hadBegun = this.#progress.hasBegun;
    const found = await this.#progress.compare(file);
    if (found === 'same') return this.#lines;
    if (found === 'other') {
      if (hadBegun) this.#beginnings += 1;
      this.#lines = [];
      this.#place = evaluationPlacer();
      this.#playedBy.clear();
    }
    const lines = this.#lines;
    const line = (bytes: Buffer, start: number, end: number) => {
      const parsed = metricLine(bytes.toString('utf8', start, end));
      if (parsed?.kind === 'evaluation') this.#playedBy.set(parsed.step, parsed.values['policy_version'] ?? null);
      if (parsed !== null) lines.push(this.#place(parsed));
    };
    await this.#progress.reached(file, await visitLines(file, { line }, { name: 'metrics.jsonl', from: this.#progress.readTo }));
    return lines;
  }
}

const KINDS: ReadonlySet<unknown> = new Set(['step', 'evaluation', 'validation']);

/** Null for a line that is not one of metrics. */
function metricLine(text: string): MetricLine | null {
  const { kind, step, time, ...rest } = fieldsOf(jsonOrNull(text));
  if (!KINDS.has(kind) || numberOf(step) === null) return null;
  const values = Object.create(null) as Record<string, number | null>;
  for (const [name, value] of Object.entries(rest)) if (value === null || typeof value === 'number') values[name] = numberOf(value);
  return { kind: kind as MetricLine['kind'], step: step as number, time: textOf(time) ?? '', values };
}
