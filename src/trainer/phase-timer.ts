/** Wall clock by phase of a step, and the CPU time of this process. */
import type { TrainingObserver, TrainingPhase } from './training-observer.ts';

export class PhaseTimer {
  readonly #step: number;
  readonly #observer: TrainingObserver;
  readonly #startedAtMs = performance.now();
  readonly #cpuAtStart = process.cpuUsage();
  readonly #seconds = new Map<TrainingPhase, number>();

  constructor(step: number, observer: TrainingObserver) {
    this.#step = step;
    this.#observer = observer;
  }

  /** Adds the time that `work` takes to the phase, also when it fails. */
  async measure<T>(phase: TrainingPhase, work: () => Promise<T>): Promise<T> {
    this.#observer.onPhase?.(phase, this.#step);
    const startedAtMs = performance.now();
    try {
      return await work();
    } finally {
      this.#seconds.set(phase, this.seconds(phase) + (performance.now() - startedAtMs) / 1000);
    }
  }

  /** 0 of a phase that did not happen. */
  seconds(phase: TrainingPhase): number {
    return this.#seconds.get(phase) ?? 0;
  }

  /** Since the timer was made. */
  get totalSeconds(): number {
    return (performance.now() - this.#startedAtMs) / 1000;
  }

  /** User and system time of this process since the timer was made. */
  get cpuSeconds(): number {
    const { user, system } = process.cpuUsage(this.#cpuAtStart);
    return (user + system) / 1e6;
  }
}
