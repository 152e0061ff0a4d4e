/**
 * Writes a run's metrics in the format of a viewer, while the run goes on. `metrics.jsonl` stays the record: when a run starts or continues, a new file
 * is written from it, so that the curves never show a step that is measured again. A failure to write curves ends the log, not the run.
 */
import { thrownText } from '../../core/errors.ts';
import type { RecordedMetricsRow, TrainingObserver, TrainingStart } from '../training-observer.ts';

/** A file in a viewer's format. */
export interface CurveFile {
  append(row: RecordedMetricsRow): void;
  /** `isFinished`: the run took its last step. */
  close(isFinished: boolean): void;
}

export interface CurveLogOptions {
  /** The viewer's name, for messages. */
  readonly viewer: string;
  /** Creates the next file, with the rows on file. */
  readonly open: (start: TrainingStart) => CurveFile;
  /** Called once, if the log ends because a file cannot be written. */
  readonly onFailure: (message: string) => void;
}

/** A point of a curve, under the viewer's name for the curve. */
export interface CurvePoint {
  readonly tag: string;
  readonly value: number;
}

/**
 * `train/<metric>` for a step, `eval/<metric>` for an evaluation, `validation/<metric>` for a validation; viewers group by the part before the slash.
 * Leaves out what was not measured.
 */
export function curvePoints({ kind, values }: Pick<RecordedMetricsRow, 'kind' | 'values'>): CurvePoint[] {
  const group = GROUPS[kind];
  // 0 instead of -0, as in metrics.jsonl: JSON knows no other.
  return Object.entries(values).flatMap(([name, value]) => (value === null ? [] : [{ tag: `${group}/${name}`, value: value + 0 }]));
}

const GROUPS: Readonly<Record<RecordedMetricsRow['kind'], string>> = { step: 'train', evaluation: 'eval', validation: 'validation' };

export class CurveLog implements TrainingObserver {
  readonly #options: CurveLogOptions;
  #file: CurveFile | null = null;
  #hasFailed = false;

  constructor(options: CurveLogOptions) {
    this.#options = options;
  }

  onStart(start: TrainingStart): void {
    this.#attempt(() => {
      this.#file?.close(false);
      this.#file = null;
      this.#file = this.#options.open(start);
    });
  }

  onStep(row: RecordedMetricsRow): void {
    this.#attempt(() => this.#file?.append(row));
  }

  onEvaluation(row: RecordedMetricsRow): void {
    this.#attempt(() => this.#file?.append(row));
  }

  onValidation(row: RecordedMetricsRow): void {
    this.#attempt(() => this.#file?.append(row));
  }

  close({ isFinished }: { readonly isFinished: boolean }): void {
    this.#attempt(() => this.#file?.close(isFinished));
    this.#file = null;
  }

  #attempt(write: () => void): void {
    if (this.#hasFailed) return;
    try {
      write();
    } catch (error) {
      this.#hasFailed = true;
      const { viewer, onFailure } = this.#options;
      onFailure(`${thrownText(error)} No more curves for ${viewer}; metrics.jsonl has every value, and -R writes the curves again.`);
    }
  }
}
