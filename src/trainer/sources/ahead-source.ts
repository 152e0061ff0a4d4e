import { cp, mkdir, rm } from 'node:fs/promises';
import type { TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

/** Takes the next batch of a source while the trainer works on this one. */
export class AheadSource implements TrajectorySource {
  readonly #source: TrajectorySource;
  readonly #lastStep: number;
  readonly #directory: string | null;
  #next: { readonly step: number; readonly batch: Promise<TrajectoryBatch> } | null = null;
  /** The state before `#next` is in the folder; rejects if it cannot be written. */
  #kept: Promise<void> = Promise.resolve();

  /** @param directory for the state of the source; null if it has none */
  constructor(source: TrajectorySource, lastStep: number, directory: string | null = null) {
    this.#source = source;
    this.#lastStep = lastStep;
    this.#directory = directory;
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const begun = this.#next?.step === step ? this.#next.batch : this.#source.take(step, signal);
    this.#next = null;
    const batch = await begun;
    if (step < this.#lastStep) {
      await this.#keep();
      const next = this.#source.take(step + 1, signal);
      // `take` rethrows; suppress the unhandled rejection until then.
      next.catch(() => {});
      this.#next = { step: step + 1, batch: next };
    }
    return batch;
  }

  /** The step after the next is sampled from the same weights. */
  needsPolicy(step: number): boolean {
    return this.#source.needsPolicy(step) || (step < this.#lastStep && this.#source.needsPolicy(step + 1));
  }

  /** Saves the state after the last batch that was taken, from which a resumed run begins the next one again. That next batch may have moved the source on meanwhile. */
  async saveState(directory: string): Promise<void> {
    if (this.#next === null) return this.#source.saveState(directory);
    await this.#kept;
    if (this.#directory !== null) await cp(this.#directory, directory, { recursive: true });
  }

  loadState(directory: string): Promise<void> {
    return this.#source.loadState(directory);
  }

  /** Waits until sampling has ended, successfully or not. */
  async close(): Promise<void> {
    await this.#next?.batch.catch(() => {});
    await this.#source.close?.();
    if (this.#directory !== null) await rm(this.#directory, { recursive: true, force: true }).catch(() => {});
  }

  async #keep(): Promise<void> {
    const directory = this.#directory;
    if (directory === null) return;
    this.#kept = (async () => {
      await rm(directory, { recursive: true, force: true });
      await mkdir(directory, { recursive: true });
      await this.#source.saveState(directory);
    })();
    // A state that could not be saved does not end the run: `saveState` throws the error when a checkpoint needs it.
    await this.#kept.catch(() => {});
  }
}
