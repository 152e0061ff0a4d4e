import { GradientError, TrainingError } from '../../core/errors.ts';
import type { MicroBatch } from './pack-batches.ts';

export interface TokenBudgetOptions {
  /** @default ignored */
  readonly onChange?: (change: 'halved' | 'raised', tokens: number) => void;
  /** `counters` of a budget with the same limit, to continue where it was. @default a fresh budget */
  readonly counters?: Readonly<Record<string, number>>;
  /** The number of backends that were lost because memory ran out: each halves the budget. @default 0 */
  readonly lost?: number;
}

/** Good steps before the first attempt to double a halved budget. Each failure doubles the number. */
const FIRST_WAIT = 10;
/** With more, a run of weeks would never try again. */
const LONGEST_WAIT = 1280;

/**
 * Token budget of a micro-batch: starts at a limit, halves each time memory runs out, and doubles towards the limit after a number of steps without such a
 * failure. That number doubles with each step that fails, so that a limit that never fits costs ever less. Counts steps only, so that a resumed run packs
 * the same micro-batches.
 */
export class TokenBudget {
  readonly #limit: number;
  readonly #onChange: NonNullable<TokenBudgetOptions['onChange']>;
  #tokens: number;
  /** Consecutive steps at this budget whose micro-batches all fitted. */
  #goodSteps: number;
  /** Good steps to wait before doubling; 0 until memory first runs out. */
  #wait: number;
  #hasTried = false;
  #hasFailed = false;

  constructor(limit: number, { onChange = () => {}, counters = {}, lost = 0 }: TokenBudgetOptions = {}) {
    this.#limit = limit;
    this.#onChange = onChange;
    this.#tokens = Math.min(limit, counters['token_budget'] ?? limit);
    this.#goodSteps = counters['token_budget_good_steps'] ?? 0;
    this.#wait = counters['token_budget_wait'] ?? 0;
    if (lost === 0) return;
    this.#tokens = Math.max(1, Math.floor(this.#tokens / 2 ** lost));
    this.#fail();
    this.#onChange('halved', this.#tokens);
  }

  get tokens(): number {
    return this.#tokens;
  }

  /** For the checkpoint. Between two steps these are the whole state. */
  get counters(): Readonly<Record<'token_budget' | 'token_budget_good_steps' | 'token_budget_wait', number>> {
    return { token_budget: this.#tokens, token_budget_good_steps: this.#goodSteps, token_budget_wait: this.#wait };
  }

  /** Call after each training step. Doubles the budget if it is due. */
  finishStep(): void {
    const [hasTried, hasFailed] = [this.#hasTried, this.#hasFailed];
    this.#hasTried = this.#hasFailed = false;
    if (hasFailed) this.#fail();
    else if (hasTried && this.#tokens < this.#limit && ++this.#goodSteps >= this.#wait) {
      this.#goodSteps = 0;
      this.#tokens = Math.min(this.#limit, 2 * this.#tokens);
      this.#onChange('raised', this.#tokens);
    }
  }

  #fail(): void {
    this.#goodSteps = 0;
    this.#wait = Math.min(LONGEST_WAIT, Math.max(FIRST_WAIT, 2 * this.#wait));
  }

  /**
   * Returns null if memory ran out: the budget is then halved, and the remaining sequences must be packed again. Throws TrainingError if the batch was
   * a single sequence, which cannot be made smaller.
   */
  async attempt<T>({ members, batch }: MicroBatch, work: () => Promise<T>): Promise<T | null> {
    this.#hasTried = true;
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
      this.#hasFailed = true;
      this.#tokens = Math.max(1, Math.floor(Math.min(this.#tokens, tokens) / 2));
      this.#onChange('halved', this.#tokens);
      return null;
    }
  }
}
