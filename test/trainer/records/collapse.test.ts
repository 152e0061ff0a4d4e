import { describe, expect, it } from 'vitest';
import { collapseIn } from '../../../src/trainer/records/collapse.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

type Values = MetricsRow['values'];

function rows(...steps: readonly Values[]): MetricsRow[] {
  return steps.map((values, i) => ({ kind: 'step', step: i + 1, values: { rollouts: 64, learning_rate: 0.03, ...values } }));
}
const played = (mean: number, entropy: number) => ({ reward_mean: mean, reward_min: 0, reward_max: mean === 0 ? 0 : 1, entropy });
const updated = (before: number, after: number) => ({ update_log_prob_before: before, update_log_prob_after: after });

describe('collapseIn', () => {
  it('names the update that made the texts of its own step all but impossible, with the figures before and after', () => {
    const found = collapseIn(rows({ ...played(0.266, 0.3), ...updated(-0.46, -18.55), learning_rate: 50 }, played(0, 6.53)));
    expect(found).toEqual({
      step: 1,
      text: 'the update of step 1, at the learning rate 50, lowered the mean log-prob of texts of that step from -0.46 to -18.6 nats per token',
    });
  });

  it('names a supervised update as well, which has no rewards', () => {
    expect(collapseIn(rows(updated(-2.1, -2), updated(-1.9, -30)))?.step).toBe(2);
  });

  it('sees that all rewards are lost after a smaller update: figures of both steps, and the update in between', () => {
    const found = collapseIn(
      rows({ ...played(0.266, 0.3), ...updated(-0.46, -0.91) }, { ...played(0.906, 0.08), ...updated(-0.26, -1.23) }, played(0, 1.33)),
    );
    expect(found?.step).toBe(2);
    expect(found?.text).toBe(
      'no reward of step 3 is above 0, where their mean was 0.906 at step 2, and the entropy went from 0.08 to 1.33 nats per token. ' +
        'In between, the update of step 2, at the learning rate 0.03, lowered the mean log-prob of texts of that step from -0.26 to -1.23 nats per token',
    );
  });

  it('sees a collapse over several steps, and one in which the entropy falls to nothing', () => {
    const slow = [
      { ...played(0.9, 0.1), ...updated(-0.3, -0.35) },
      { ...played(0.4, 0.3), ...updated(-0.3, -0.9) },
      { ...played(0.1, 0.9), ...updated(-0.9, -1.2) },
    ];
    expect(collapseIn(rows(...slow, played(0, 1.4)))?.step).toBe(2);
    expect(collapseIn(rows(slow[0]!, slow[1]!, played(0, 0.0001)))?.step).toBe(2);
  });

  it.each([
    ['hard rows, which all fail by chance', [{ ...played(0.3, 0.3), ...updated(-0.46, -0.48) }, played(0, 0.9)]],
    ['hard rows after a large update that changed nothing else', [{ ...played(0.3, 0.3), ...updated(-0.46, -0.9) }, played(0, 0.4)]],
    [
      'a large update after which rewards rise',
      [
        { ...played(0.26, 0.3), ...updated(-0.46, -0.91) },
        { ...played(0.9, 0.08), ...updated(-0.3, -0.31) },
      ],
    ],
    [
      'all rows solved',
      [
        { ...played(0.9, 0.5), ...updated(-0.5, -0.9) },
        { ...played(1, 0.1), reward_min: 1 },
      ],
    ],
    ['a reward that is always 0', [{ ...played(0, 0.3), reward_max: 0, ...updated(-0.5, -0.9) }, played(0, 0.9)]],
    ['texts that an update made more likely', [updated(-8, -3), updated(-3, -0.1)]],
    [
      'figures that were not measured',
      [{ ...played(0.3, 0.3), update_log_prob_before: null, update_log_prob_after: null }, { reward_mean: null }, {}],
    ],
  ])('takes no alarm from ordinary training: %s', (_, steps) => {
    expect(collapseIn(rows(...(steps as Values[])))).toBeNull();
  });
});
