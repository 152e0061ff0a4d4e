import type { TrajectoryBatch, TrajectorySource } from './trajectory-source.ts';

/** Takes the next batch of a source while the trainer works on this one. */
export class AheadSource implements TrajectorySource {
  readonly #source: TrajectorySource;
  readonly #lastStep: number;
  #next: { readonly step: number; readonly batch: Promise<TrajectoryBatch> } | null = null;

  constructor(source: TrajectorySource, lastStep: number) {
    this.#source = source;
    this.#lastStep = lastStep;
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const begun = this.#next?.step === step ? this.#next.batch : this.#source.take(step, signal);
    this.#next = null;
    const batch = await begun;
    if (step < this.#lastStep) {
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

  saveState(directory: string): Promise<void> {
    return this.#source.saveState(directory);
  }

  loadState(directory: string): Promise<void> {
    return this.#source.loadState(directory);
  }

  /** Waits until sampling has ended, successfully or not. */
  async close(): Promise<void> {
    await this.#next?.batch.catch(() => {});
    await this.#source.close?.();
  }
}
