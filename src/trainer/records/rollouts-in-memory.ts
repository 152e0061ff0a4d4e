import type { RolloutStore, RecordedRollout, StepRollouts } from '../trajectory-source.ts';

/** Rollouts of a group whose step is not known yet: a store of one group, without a file. */
export class RolloutsInMemory implements Pick<RolloutStore, 'open' | 'discard'> {
  readonly #byId = new Map<string, RecordedRollout>();
  #attempts = 0;

  /** The contents of each rollout that a file needs, by its id. */
  get rollouts(): ReadonlyMap<string, RecordedRollout> {
    return this.#byId;
  }

  async open(step: number): Promise<StepRollouts> {
    const byId = this.#byId;
    const attempts = () => this.#attempts;
    return {
      step,
      version: null,
      get recorded() {
        return Array.from(byId.values(), ({ trajectory }) => trajectory);
      },
      get isComplete() {
        return attempts() > 0;
      },
      get attempts() {
        return attempts();
      },
      add: (trajectory, asked = [], trace = []) => void byId.set(trajectory.rolloutId, { trajectory, asked, trace }),
      restart: () => byId.clear(),
      complete: async (count) => {
        this.#attempts = count;
      },
      [Symbol.asyncDispose]: async () => {},
    };
  }

  async discard(): Promise<void> {
    this.#byId.clear();
    this.#attempts = 0;
  }
}
