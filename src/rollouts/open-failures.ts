/**
 * What failed while an agent asked, until a later request makes it good. Of two requests of the same moment neither makes the other's failure good, so that it does not matter
 * which of them ended first.
 */
import type { RolloutPhase } from './rollout.ts';

export interface OpenFailure {
  readonly error: unknown;
  /** Tells whose failure it is: `generation` is the policy's. */
  readonly phase: RolloutPhase;
}

export class OpenFailures {
  readonly #open = new Map<unknown, OpenFailure & { readonly at: number }>();
  #clock = 0;

  /** A time, later than all before. */
  now(): number {
    return this.#clock++;
  }

  /** @param asked what the request was about; the same value if it is asked again */
  add(asked: unknown, failure: OpenFailure): void {
    this.#open.set(asked, { ...failure, at: this.now() });
  }

  /** A request that began at `since` was answered. */
  answered(asked: unknown, since: number): void {
    const failure = this.#open.get(asked);
    if (failure !== undefined && since > failure.at) this.#open.delete(asked);
  }

  /** In the order in which they happened first. */
  get all(): readonly OpenFailure[] {
    return [...this.#open.values()];
  }
}
