/**
 * Compares supervised steps with the best loss so far: several updates, each of which looks harmless, may destroy a policy together. Steps on rollouts are left out, because
 * their losses lower the log-probs of texts on purpose.
 */
import { figureText as figure } from '../../core/setting-number.ts';
import { type MetricsRow, metricValue } from '../training-observer.ts';

export interface LossRise {
  /** The step whose update did most of it. */
  readonly step: number;
  /** What rose, from where to where, in nats per token. */
  readonly text: string;
}

/** Nats per token. Both figures are of the same texts, so a rise this large is not noise: an update that works makes its own texts more likely, and this one makes each token 2.7 times less likely. */
const MOST_RISE = 1;
/** Losses of small batches differ by a nat or two, because rows are easy or hard. Eight steps in a row do not all lie that far above the mean of eight others by chance. */
const STEPS = 8;
const MOST_RISE_OF_OTHERS = 2;

interface Update {
  readonly step: number;
  readonly before: number;
  readonly after: number;
}

/** Sees the rows of a run in order. */
export class RisingLoss {
  /** The updates since the one after which the texts of each step were most likely, all in all. */
  #since: readonly Update[] = [];
  #fall = 0;
  #validated: { readonly step: number; readonly value: number } | null = null;
  /** Since the best validation. */
  #updates: Update[] = [];
  #lastLosses: readonly number[] = [];
  #bestMean = Infinity;

  see(row: MetricsRow): LossRise | null {
    if (row.kind === 'validation') return this.#ofValidation(row);
    const [before, after] = [metricValue(row, 'update_log_prob_before'), metricValue(row, 'update_log_prob_after')];
    if (row.kind !== 'step' || before === null || after === null) return null;
    if ((metricValue(row, 'demonstrations') ?? 0) === 0 || (metricValue(row, 'rollouts') ?? 0) > 0) return null;
    const update = { step: row.step, before, after };
    this.#updates.push(update);
    return this.#ofOwnTexts(update) ?? this.#ofOtherTexts(update);
  }

  /** Each update is measured on texts of its own step, so that hard rows after easy ones are no rise. */
  #ofOwnTexts(update: Update): LossRise | null {
    const fall = this.#fall + fallOf(update);
    [this.#fall, this.#since] = fall <= 0 ? [0, []] : [fall, [...this.#since, update]];
    if (fall <= MOST_RISE) return null;
    const first = this.#since[0]!;
    const steps = first.step === update.step ? `update of step ${first.step}` : `updates of steps ${first.step} to ${update.step}`;
    return {
      step: largest(this.#since).step,
      text: `the ${steps} together lowered the mean log-prob of the demonstrations of their own steps by ${figure(fall)}, from ${figure(first.before)} to ${figure(update.after)} nats per token`,
    };
  }

  /** An update may make its own texts likely and those of all other steps unlikely. */
  #ofOtherTexts(update: Update): LossRise | null {
    this.#lastLosses = [...this.#lastLosses, -update.before].slice(-STEPS);
    if (this.#lastLosses.length < STEPS) return null;
    const least = Math.min(...this.#lastLosses);
    const best = this.#bestMean;
    this.#bestMean = Math.min(best, this.#lastLosses.reduce((sum, loss) => sum + loss, 0) / STEPS);
    if (least <= best + MOST_RISE_OF_OTHERS) return null;
    return {
      step: update.step - STEPS,
      text: `no loss of the last ${STEPS} steps is below ${figure(least)} nats per token, and the lowest mean of ${STEPS} steps was ${figure(best)}`,
    };
  }

  /** The same texts each time. They also become less likely while the policy learns the trained rows by heart, but these then stay likely. */
  #ofValidation(row: MetricsRow): LossRise | null {
    const value = metricValue(row, 'validation_nll');
    if (value === null) return null;
    const best = this.#validated;
    if (best === null || value <= best.value) {
      this.#validated = { step: row.step, value };
      this.#updates = [];
      return null;
    }
    const last = this.#updates.at(-1);
    if (value <= best.value + MOST_RISE || last === undefined || -last.after <= best.value) return null;
    return {
      step: largest(this.#updates).step,
      text: `the validation loss went from ${figure(best.value)} nats per token after step ${best.step} to ${figure(value)} after step ${row.step}, and the trained rows did not become more likely`,
    };
  }
}

function fallOf({ before, after }: Update): number {
  return before - after;
}

function largest(updates: readonly Update[]): Update {
  return updates.reduce((most, each) => (fallOf(each) > fallOf(most) ? each : most));
}
