/** Supervised rows: passes over the data, each in a shuffled order of its own, without a break between them. Depends only on seed and step. */
import { Random } from '../../core/random.ts';
import type { Trajectory } from './trajectory.ts';
import type { TrajectoryBatch, TrajectorySource } from './trajectory-source.ts';

export interface DemonstrationSourceOptions {
  /** At least one. */
  readonly rows: readonly Trajectory[];
  readonly batchSize: number;
  readonly seed: number;
}

export class DemonstrationSource implements TrajectorySource {
  readonly #options: DemonstrationSourceOptions;
  #order: { readonly pass: number; readonly places: readonly number[] } | null = null;

  constructor(options: DemonstrationSourceOptions) {
    this.#options = options;
  }

  async take(step: number): Promise<TrajectoryBatch> {
    const { rows, batchSize } = this.#options;
    const first = (step - 1) * batchSize;
    const trajectories = Array.from({ length: batchSize }, (_, i) => {
      const at = first + i;
      const row = rows[this.#orderOf(Math.floor(at / rows.length))[at % rows.length]!]!;
      // The same row may be twice in a batch where it holds the end of a pass.
      return { ...row, groupId: `${row.groupId}#${at}`, rolloutId: `${row.groupId}#${at}/0` };
    });
    return { trajectories };
  }

  needsPolicy(): boolean {
    return false;
  }

  async saveState(): Promise<void> {}

  async loadState(): Promise<void> {}

  #orderOf(pass: number): readonly number[] {
    if (this.#order?.pass !== pass) {
      const { rows, seed } = this.#options;
      const places = Random.fromSeed(seed)
        .fork(`demonstrations, pass ${pass}`)
        .shuffle([...rows.keys()]);
      this.#order = { pass, places };
    }
    return this.#order.places;
  }
}
