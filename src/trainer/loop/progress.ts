import { cp, mkdir, rm } from 'node:fs/promises';
import { ResultsError, TrainingError } from '../../core/errors.ts';
import { endsBackend, type GradientBackend } from '../gradient-backend.ts';
import { isDiskFull } from '../../files/disk-full.ts';
import { systemText } from '../../files/system-text.ts';

interface Stateful {
  saveState(directory: string): Promise<void>;
}

/** The end of a step: all of it is recorded. */
export interface Boundary {
  readonly step: number;
  readonly version: number;
  /** The loop's own counts: finite numbers by name. */
  readonly counters: Readonly<Record<string, number>>;
}

export interface ProgressOptions {
  readonly start: Boundary;
  /** For the state at the last boundary; the run's own, replaced at every step. */
  readonly directory: string;
  /**
   * Keeps the weights at every boundary too. That is needed if a step has several updates: an interruption between them would otherwise cost all steps since the
   * last checkpoint. Null if a step updates once, at its end.
   */
  readonly parts: Readonly<Record<string, Stateful>>;
  /**
   * Keeps the weights at every boundary too. That is needed if a step has several updates: an interruption between them would otherwise cost all steps since
   * the last checkpoint. Null if a step updates once, at its end.
   */
  readonly backend: Pick<GradientBackend, 'saveState' | 'saveAdapter'> | null;
}

/**
 * The progress of a run, and the contents of a checkpoint written now. Between two boundaries the weights, the source and the credit move on, and a checkpoint
 * must not hold half of a step.
 */
export class Progress {
  readonly #options: ProgressOptions;
  #step: number;
  #version: number;
  #boundary: Boundary;
  #isAtBoundary = true;
  #hasWeights = false;
  #problem: Error | null = null;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#boundary = options.start;
    this.#step = options.start.step;
    this.#version = options.start.version;
  }

  /** Steps finished. */
  get step(): number {
    return this.#step;
  }

  /** Version of the backend's weights: the last step that changed them. */
  get version(): number {
    return this.#version;
  }

  /** The last end of a step that a checkpoint can hold; null if the weights have changed since and were not kept. */
  get boundary(): Boundary | null {
    return this.#problem === null && (this.#isAtBoundary || this.#hasWeights) ? this.#boundary : null;
  }

  /** The weights are about to change. */
  leave(): void {
    this.#isAtBoundary = false;
  }

  /** They are again those of the last boundary. */
  stay(): void {
    this.#isAtBoundary = true;
  }

  /** The weights are those after this step. */
  advance(step: number, version: number): void {
    this.#step = step;
    this.#version = version;
    this.#isAtBoundary = false;
  }

  /** The reason why the last boundary could not be kept; null if it was. */
  get problem(): Error | null {
    return this.#problem;
  }

  /**
   * The step is recorded: keeps what a checkpoint at this boundary needs. If it cannot be written, there is no checkpoint of it, and the run continues.
   * @param hasCheckpoint a checkpoint is written next, so the weights need not be kept as well
   */
  async keep({ hasCheckpoint, counters }: { readonly hasCheckpoint: boolean; readonly counters: Boundary['counters'] }): Promise<void> {
    const { directory, parts } = this.#options;
    const backend = hasCheckpoint ? null : this.#options.backend;
    this.#problem = null;
    // A backend that is lost while it writes leaves neither the last boundary nor this one.
    this.#isAtBoundary = this.#hasWeights = false;
    try {
      await rm(directory, { recursive: true, force: true });
      for (const [name, part] of Object.entries(parts)) {
        await mkdir(`${directory}/parts/${name}`, { recursive: true });
        await part.saveState(`${directory}/parts/${name}`);
      }
      if (backend !== null) {
        await backend.saveState(`${directory}/state`);
        await backend.saveAdapter(`${directory}/adapter`);
        this.#hasWeights = true;
      }
    } catch (cause) {
      // A resume without the state of a source or a credit would go on wrongly.
      if (endsBackend(cause) || (cause instanceof TrainingError && !isDiskFull(cause))) throw cause;
      this.#problem = new ResultsError(`Cannot write ${directory}: ${systemText(cause)}`, { cause });
    }
    this.#boundary = { step: this.#step, version: this.#version, counters };
    this.#isAtBoundary = true;
  }

  /** Fills the folder of a checkpoint of the last boundary: `state/`, `adapter/` and `parts/`. Throws the problem that kept the boundary from being kept. */
  async fill(directory: string, backend: Pick<GradientBackend, 'saveState' | 'saveAdapter'>): Promise<void> {
    if (this.#problem !== null) throw this.#problem;
    if (this.#isAtBoundary) {
      await backend.saveState(`${directory}/state`);
      await backend.saveAdapter(`${directory}/adapter`);
      await cp(`${this.#options.directory}/parts`, `${directory}/parts`, { recursive: true });
    } else {
      await cp(this.#options.directory, directory, { recursive: true });
    }
  }

  /** Deletes what was kept: only a process that may still write a checkpoint needs it. */
  async close(): Promise<void> {
    await rm(this.#options.directory, { recursive: true, force: true }).catch(() => {});
  }
}
