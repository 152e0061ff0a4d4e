/**
 * Says when an update destroyed the policy although its weights are finite, from the recorded figures alone: the log-probs of the same texts before and after the update, and the
 * rewards and the entropy of what was sampled before and after it.
 */
import { figureText as figure, settingNumber } from '../../core/setting-number.ts';
import { type MetricsRow, metricValue } from '../training-observer.ts';
import { RisingLoss } from './rising-loss.ts';

export interface Collapse {
  /** The step whose update did it. */
  readonly step: number;
  /** The figures before and after, in one sentence without its full stop. */
  readonly text: string;
}

/** Nats per token by which one update may lower the mean log-prob of texts of its step. Training that works stays below 0.1; the rates that destroy a policy lower it by 1 to 20. */
const MOST_FALL = 2;
/** A fall that is suspicious if all rewards are lost after it. */
const LEAST_FALL = 0.25;
/** The factor by which the entropy then has changed. */
const LEAST_CHANGE = 2;

/** Sees the rows of a run in order. */
export class CollapseWatch {
  #found: Collapse | null = null;
  /** The step with the highest mean reward of those whose update was applied. */
  #best: MetricsRow | null = null;
  /** Since that step, the step whose update lowered the log-probs most. */
  #largest: MetricsRow | null = null;
  readonly #loss = new RisingLoss();
  /** Of the steps so far, for the rate of the one that did it. */
  readonly #rates = new Map<number, number>();

  constructor(rows: readonly MetricsRow[] = []) {
    for (const row of rows) this.see(row);
  }

  get found(): Collapse | null {
    return this.#found;
  }

  /** Returns the collapse if this row is the first to show one. */
  see(row: MetricsRow): Collapse | null {
    if ((row.kind !== 'step' && row.kind !== 'validation') || this.#found !== null) return null;
    this.#rates.set(row.step, metricValue(row, 'learning_rate') ?? this.#rates.get(row.step) ?? NaN);
    const risen = this.#loss.see(row);
    this.#found = ofUpdate(row) ?? this.#ofRewards(row) ?? (risen && this.#ofLoss(risen));
    if (fallOf(row) === null) return this.#found;
    const [reward, best] = [metricValue(row, 'reward_mean'), this.#best === null ? null : metricValue(this.#best, 'reward_mean')];
    if (reward !== null && (best === null || reward >= best)) [this.#best, this.#largest] = [row, row];
    else if (this.#largest === null || fallOf(row)! > fallOf(this.#largest)!) this.#largest = row;
    return this.#found;
  }

  #ofLoss({ step, text }: Collapse): Collapse {
    const rate = this.#rates.get(step) ?? NaN;
    return { step, text: Number.isNaN(rate) ? text : `${text}, at the learning rate ${settingNumber(rate)}` };
  }

  /** All rewards are as low as the lowest of the best step, or lower. A few hard rows do that too, but they do not change the log-probs of other texts. */
  #ofRewards(row: MetricsRow): Collapse | null {
    const [best, largest] = [this.#best, this.#largest];
    if (best === null || largest === null || fallOf(largest)! < LEAST_FALL) return null;
    const [mean, most, rollouts] = [metricValue(row, 'reward_mean'), metricValue(row, 'reward_max'), metricValue(row, 'rollouts') ?? 0];
    const [before, least] = [metricValue(best, 'reward_mean')!, metricValue(best, 'reward_min')];
    const [entropy, entropyBefore] = [metricValue(row, 'entropy'), metricValue(best, 'entropy')];
    if (mean === null || most === null || least === null || rollouts < 2 || most > least || before <= mean) return null;
    if (entropy === null || entropyBefore === null || Math.max(entropy / entropyBefore, entropyBefore / entropy) < LEAST_CHANGE) return null;
    return {
      step: largest.step,
      text:
        `no reward of step ${row.step} is above ${figure(most)}, where their mean was ${figure(before)} at step ${best.step}, and the entropy went from ${figure(entropyBefore)} to ${figure(entropy)} nats per token. ` +
        `In between, ${fallText(largest)}`,
    };
  }
}

/** The collapse that the rows of a run show; null if none does. */
export function collapseIn(rows: readonly MetricsRow[]): Collapse | null {
  return new CollapseWatch(rows).found;
}

function ofUpdate(row: MetricsRow): Collapse | null {
  return (fallOf(row) ?? 0) > MOST_FALL ? { step: row.step, text: fallText(row) } : null;
}

/** Null if no weight changed. */
function fallOf(row: MetricsRow): number | null {
  const [before, after] = [metricValue(row, 'update_log_prob_before'), metricValue(row, 'update_log_prob_after')];
  return before === null || after === null ? null : before - after;
}

function fallText(row: MetricsRow): string {
  const [rate, before, after] = ['learning_rate', 'update_log_prob_before', 'update_log_prob_after'].map((name) => metricValue(row, name));
  const at = rate === null || rate === undefined ? '' : `, at the learning rate ${settingNumber(rate)},`;
  return `the update of step ${row.step}${at} lowered the mean log-prob of texts of that step from ${figure(before!)} to ${figure(after!)} nats per token`;
}
