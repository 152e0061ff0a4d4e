import { GradientError, TrainingError } from '../../core/errors.ts';
import type { MicroBatch } from './pack-batches.ts';

/** Token budget of a micro-batch: starts at the configured number and halves each time memory runs out. Saved in checkpoints. */
export class TokenBudget {
  #tokens: number;
  readonly #onHalved: (tokens: number) => void;

  constructor(tokens: number, onHalved: (tokens: number) => void = () => {}) {
    this.#tokens = tokens;
    this.#onHalved = onHalved;
  }

  get tokens(): number {
    return this.#tokens;
  }

  /**
   * Returns null if memory ran out: the budget is then halved, and the remaining sequences must be packed again. Throws TrainingError if the batch was
   * a single sequence, which cannot be made smaller.
   */
  async attempt<T>({ members, batch }: MicroBatch, work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof GradientError) || error.code !== 'out_of_memory') throw error;
      const tokens = batch.ids.length;
      if (members.length === 1) {
        throw new TrainingError(
          `Out of memory on a single sequence of ${tokens} tokens; set backend.gradient_checkpointing = true, shorten the environment's contexts, or use a larger device`,
          { cause: error },
        );
      }
      this.#tokens = Math.max(1, Math.floor(Math.min(this.#tokens, tokens) / 2));
      this.#onHalved(this.#tokens);
      return null;
    }
  }
}
