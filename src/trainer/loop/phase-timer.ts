/** Wall-clock time of each phase of a step, and CPU time of this process. */
import { PhaseClock } from './phase-clock.ts';

export class PhaseTimer extends PhaseClock {
  readonly #cpuAtStart = process.cpuUsage();

  /** User and system time of this process since the timer was created. */
  get cpuSeconds(): number {
    const { user, system } = process.cpuUsage(this.#cpuAtStart);
    return (user + system) / 1e6;
  }
}
