import { GradientError, TrainingError } from '../core/errors.ts';
import type { MicroBatch } from './pack-batches.ts';

/** Tokens of a micro-batch: what the configuration asks for until memory runs out, then half of it, and so on. Kept in checkpoints. */
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
   * Null when memory ran out: the budget is then halved, and what is left must be packed again. Throws TrainingError when the batch was a single
   * sequence, for nothing smaller can be tried.
   */
  async attempt<T>({ members, batch }: MicroBatch, work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof GradientError) || error.code !== 'out_of_memory') throw error;
      const tokens = batch.ids.length;
      if (members.length === 1) {
        throw new TrainingError(
          `Expected room for one sequence of ${tokens} tokens, but memory ran out; set backend.gradient_checkpointing = true, shorten the environment's contexts, or use a larger device`,
          { cause: error },
        );
      }
      this.#tokens = Math.max(1, Math.floor(Math.min(this.#tokens, tokens) / 2));
      this.#onHalved(this.#tokens);
      return null;
    }
  }
}
