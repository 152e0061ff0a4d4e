/** The batches of a run, step by step. Asynchronous runs sample the next batch while training on this one. */
import type { Dataset, Row } from '../../core/dataset.ts';
import { ConfigError } from '../../core/errors.ts';
import { Random } from '../../core/random.ts';
import type { SampledBatch } from './sample-rollouts.ts';

/**
 * The rows of a step (from 1). Each pass over the data is shuffled separately and starts at a step boundary; rows left over at the end of a pass are skipped.
 * Depends only on seed and step, so a resumed run needs no cursor.
 */
export function rowsOfStep(train: Dataset, examplesPerStep: number, seed: number, step: number): Row[] {
  const stepsPerPass = Math.floor(train.length / examplesPerStep);
  if (stepsPerPass === 0) {
    throw new ConfigError(
      `rollouts.examples_per_step is ${examplesPerStep}, but ${train.name} has only ${train.length} ${train.length === 1 ? 'row' : 'rows'}; lower it or train on more rows`,
    );
  }
  const pass = Math.floor((step - 1) / stepsPerPass);
  const first = ((step - 1) % stepsPerPass) * examplesPerStep;
  const order = Random.fromSeed(seed)
    .fork(`pass ${pass}`)
    .shuffle(Array.from({ length: train.length }, (_, i) => i));
  return order.slice(first, first + examplesPerStep).map((i) => train.at(i));
}

export class BatchStream {
  readonly #sample: (step: number) => Promise<SampledBatch>;
  readonly #isAhead: boolean;
  readonly #lastStep: number;
  #next: { readonly step: number; readonly batch: Promise<SampledBatch> } | null = null;

  /** @param options.isAhead sample the next batch as soon as one is taken */
  constructor({ sample, isAhead, lastStep }: { sample: (step: number) => Promise<SampledBatch>; isAhead: boolean; lastStep: number }) {
    this.#sample = sample;
    this.#isAhead = isAhead;
    this.#lastStep = lastStep;
  }

  async take(step: number): Promise<SampledBatch> {
    const begun = this.#next?.step === step ? this.#next.batch : this.#sample(step);
    this.#next = null;
    const batch = await begun;
    if (this.#isAhead && step < this.#lastStep) {
      const next = this.#sample(step + 1);
      // `take` rethrows; suppress the unhandled rejection until then.
      next.catch(() => {});
      this.#next = { step: step + 1, batch: next };
    }
    return batch;
  }

  /** Waits until sampling has ended, successfully or not. */
  async settled(): Promise<void> {
    await this.#next?.batch.catch(() => {});
  }
}
