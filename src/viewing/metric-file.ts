/**
 * The lines of a run's `metrics.jsonl`, each evaluation at the step of the version that played it, read on as the file grows. A resumed run drops lines: the file then begins
 * again, and so does the reading. It does so, too, when the environment is corrected: evaluations from before have another scale and are left out.
 */
import { kindProblem, numberProblem } from './field-kinds.ts';
import { FollowedLines } from './followed-lines.ts';
import type { LineProblems } from './line-problems.ts';
import { fieldsOf, numberOf, textOf } from './loose-fields.ts';
import type { MetricLines } from './view-wire.ts';
import { evaluationPlacer, newestEvaluations } from '../trainer/records/usable-version.ts';
import { jsonOrNull } from '../schemas/json-or-null.ts';

type MetricLine = MetricLines['lines'][number];

/** Places of a later beginning are smaller than all of an earlier one. */
const BEGINNING = 2 ** 32;
const MOST_BEGINNINGS = 2 ** 20;

/** What `metrics.jsonl` tells of the last evaluation after a step. */
export interface PlayedEvaluation {
  /** The version that played it; null if no rollout finished. */
  readonly version: number | null;
  /** The number of its environment and settings; null in runs of earlier versions. */
  readonly setup: number | null;
  /** The newest evaluation has another setup, and rewards of another scale. */
  readonly isOlder: boolean;
}

export class MetricFile {
  readonly #file: FollowedLines;
  #all: MetricLine[] = [];
  /** Without evaluations of older setups. */
  #lines: readonly MetricLine[] = [];
  #place = evaluationPlacer();
  readonly #playedBy = new Map<number, Omit<PlayedEvaluation, 'isOlder'>>();
  #setup: number | null = null;
  #problems: LineProblems | null = null;
  #beginnings = 0;
  #refreshing: Promise<readonly MetricLine[]> | null = null;

  /** @param directory the folder of a training run */
  constructor(directory: string) {
    this.#file = new FollowedLines({ directory, name: 'metrics.jsonl', isPacked: false });
  }

  /** All lines but evaluations of older setups. */
  lines(): Promise<readonly MetricLine[]> {
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  /** What is wrong with the lines that were read; null if nothing is. */
  problem(isBeingWritten: boolean): string | null {
    return this.#file.problem(isBeingWritten);
  }

  /** The last evaluation after each step. */
  async playedBy(): Promise<ReadonlyMap<number, PlayedEvaluation>> {
    await this.lines();
    const isOlder = (setup: number | null) => setup !== null && this.#setup !== null && setup !== this.#setup;
    return new Map([...this.#playedBy].map(([step, played]) => [step, { ...played, isOlder: isOlder(played.setup) }]));
  }

  /** The lines after `after`, which is the `next` of an earlier answer, or 0 for all, and the number of evaluations that are left out of all lines. */
  async after(after: number): Promise<Pick<MetricLines, 'lines' | 'next' | 'older'>> {
    const lines = await this.lines();
    const base = (MOST_BEGINNINGS - this.#beginnings) * BEGINNING;
    const from = after >= base && after < base + BEGINNING ? Math.min(after - base, lines.length) : 0;
    return { lines: lines.slice(from), next: base + lines.length, older: this.#all.length - lines.length };
  }

  async #refresh(): Promise<readonly MetricLine[]> {
    const hadBegun = this.#file.hasBegun;
    const begin = (problems: LineProblems) => {
      if (hadBegun) this.#beginnings += 1;
      this.#problems = problems;
      this.#all = [];
      this.#place = evaluationPlacer();
      this.#playedBy.clear();
      this.#setup = null;
    };
    const line = (bytes: Buffer, start: number, end: number) => this.#add(bytes.toString('utf8', start, end));
    if ((await this.#file.read({ begin, line })) === 'read') this.#lines = newestEvaluations(this.#all);
    return this.#lines;
  }

  #add(text: string): void {
    const parsed = metricLine(text, this.#problems);
    if (parsed === null) return;
    if (parsed.kind === 'evaluation') {
      const setup = parsed.values['evaluation_setup'] ?? null;
      this.#playedBy.set(parsed.step, { version: parsed.values['policy_version'] ?? null, setup });
      // The readers of earlier lines begin again.
      if (setup !== null && this.#setup !== null && setup !== this.#setup) this.#beginnings += 1;
      this.#setup = setup ?? this.#setup;
    }
    this.#all.push(this.#place(parsed));
  }
}

const KINDS: ReadonlySet<unknown> = new Set(['step', 'evaluation', 'validation']);

/** Null for a line that is not one of metrics. */
function metricLine(text: string, problems: LineProblems | null): MetricLine | null {
  const { kind, step, time, ...rest } = fieldsOf(jsonOrNull(text));
  if (!KINDS.has(kind) || numberOf(step) === null) {
    problems?.leaveOut('is no line of metrics');
    return null;
  }
  const wrong = kindProblem({ time }, { time: 'text' }) ?? numberProblem(rest, '');
  if (wrong !== null) problems?.note(wrong);
  const values = Object.create(null) as Record<string, number | null>;
  for (const [name, value] of Object.entries(rest)) if (value === null || typeof value === 'number') values[name] = numberOf(value);
  return { kind: kind as MetricLine['kind'], step: step as number, time: textOf(time) ?? '', values };
}
