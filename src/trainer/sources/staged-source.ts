/** Runs sources one after the other, or at the same time: demonstrations first, then rollouts, then both if the supervised loss is mixed in. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { countedIn } from '../records/batch-values.ts';
import type { TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

export interface Stage {
  /** Names its folder in a checkpoint. */
  readonly name: string;
  readonly source: TrajectorySource;
  /** The steps in which it takes part. */
  readonly takesPart: (step: number) => boolean;
}

export class StagedSource implements TrajectorySource {
  readonly #stages: readonly Stage[];

  constructor(stages: readonly Stage[]) {
    this.#stages = stages;
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const batches = await Promise.all(this.#at(step).map(({ source }) => source.take(step, signal)));
    return {
      trajectories: batches.flatMap(({ trajectories }) => trajectories),
      discarded: batches.flatMap(({ discarded }) => discarded ?? []),
      played: batches.flatMap(countedIn),
      attempts: batches.reduce((sum, { attempts }) => sum + (attempts ?? 0), 0),
      notes: batches.flatMap(({ notes }) => notes ?? []),
      // Only one source of a step has records: demonstrations have none.
      records: Object.assign({}, ...batches.map(({ records }) => records)) as NonNullable<TrajectoryBatch['records']>,
      values: Object.assign({}, ...batches.map(({ values }) => values)) as NonNullable<TrajectoryBatch['values']>,
    };
  }

  needsPolicy(step: number): boolean {
    return this.#at(step).some(({ source }) => source.needsPolicy(step));
  }

  async saveState(directory: string): Promise<void> {
    for (const { name, source } of this.#stages) {
      await mkdir(join(directory, name), { recursive: true });
      await source.saveState(join(directory, name));
    }
  }

  async loadState(directory: string): Promise<void> {
    for (const { name, source } of this.#stages) await source.loadState(join(directory, name));
  }

  async close(): Promise<void> {
    for (const { source } of this.#stages) await source.close?.();
  }

  #at(step: number): readonly Stage[] {
    return this.#stages.filter(({ takesPart }) => takesPart(step));
  }
}
