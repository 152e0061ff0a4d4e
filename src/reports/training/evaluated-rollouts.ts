/** The rollouts of an evaluation: those in its mean reward, and those that have no reward. */
import type { HeldOutReward } from '../../schemas/training-summary.ts';
import { type MetricsRow, metricValue } from '../../trainer/training-observer.ts';

export type EvaluatedRollouts = Pick<HeldOutReward, 'rollouts' | 'failed' | 'unplayed'>;

export function evaluatedRollouts(row: MetricsRow): EvaluatedRollouts {
  const [rollouts, failed, unplayed] = ['rollouts', 'rollouts_failed', 'rollouts_unplayed'].map((name) => metricValue(row, name) ?? 0) as [
    number,
    number,
    number,
  ];
  return { rollouts, ...(failed === 0 ? {} : { failed }), ...(unplayed === 0 ? {} : { unplayed }) };
}

/** Says which rollouts a mean leaves out: `mean of 4 of 8 rollouts; the others had no room to be played`. Null if it leaves out none. */
export function leftOutText({ rollouts, failed = 0, unplayed = 0 }: EvaluatedRollouts): string | null {
  if (failed === 0) return null;
  const why =
    unplayed === 0 ? 'failed' : unplayed === failed ? 'had no room to be played' : `failed, ${unplayed} of them for lack of room to be played`;
  return `mean of ${rollouts} of ${rollouts + failed} rollouts; ${failed === 1 ? 'the other' : 'the others'} ${why}`;
}
