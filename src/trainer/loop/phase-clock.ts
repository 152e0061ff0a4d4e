/** Wall-clock time of each phase of a step. */
import type { TrainingObserver, TrainingPhase } from '../training-observer.ts';

export class PhaseClock {
  readonly #step: number;
  readonly #observer: TrainingObserver;
  readonly #startedAtMs = performance.now();
  readonly #seconds = new Map<TrainingPhase, number>();

  constructor(step: number, observer: TrainingObserver) {
    this.#step = step;
    this.#observer = observer;
  }

  /** Adds the duration of `work` to the phase, even if it fails. */
  async measure<T>(phase: TrainingPhase, work: () => Promise<T>): Promise<T> {
    this.#observer.onPhase?.(phase, this.#step);
    const startedAtMs = performance.now();
    try {
      return await work();
    } finally {
      this.#seconds.set(phase, this.seconds(phase) + (performance.now() - startedAtMs) / 1000);
    }
  }

  /** 0 if the phase did not run. */
  seconds(phase: TrainingPhase): number {
    return this.#seconds.get(phase) ?? 0;
  }

  /** Since the clock was created. */
  get totalSeconds(): number {
    return (performance.now() - this.#startedAtMs) / 1000;
  }
}
