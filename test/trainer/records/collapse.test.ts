import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { collapseIn } from '../../../src/trainer/records/collapse.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

type Values = MetricsRow['values'];

function rows(...steps: readonly Values[]): MetricsRow[] {
  return steps.map((values, i) => ({ kind: 'step', step: i + 1, values: { rollouts: 64, learning_rate: 0.03, ...values } }));
}
const played = (mean: number, entropy: number) => ({ reward_mean: mean, reward_min: 0, reward_max: mean === 0 ? 0 : 1, entropy });
const supervised = (...losses: readonly (readonly [number, number])[]) =>
  losses.map(([before, after]) => ({ rollouts: null, demonstrations: 4, ...updated(before, after) }));
/** Each update makes the texts of its step a little more likely. */
const learned = (...losses: readonly number[]) => supervised(...losses.map((loss) => [-loss, -loss * 0.98] as const));
const validated = (step: number, loss: number): MetricsRow => ({ kind: 'validation', step, values: { validation_nll: loss } });
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

  it('sees supervised updates that destroy the policy together, none of them by 2 nats', () => {
    const [first, ...rest] = supervised([-7.5, -7.3], [-7.4, -8.3], [-8.4, -9.1], [-9.1, -7.4]);
    expect(collapseIn(rows(first!, rest[0]!))).toBeNull();
    expect(collapseIn(rows(first!, ...rest))).toEqual({
      step: 2,
      text: 'the updates of steps 2 to 3 together lowered the mean log-prob of the demonstrations of their own steps by 1.6, from -7.4 to -9.1 nats per token, at the learning rate 0.03',
    });
    expect(collapseIn(rows(...supervised([-9.07, -10.07], [-10.07, -10.35], [-10.35, -11.96])))?.step).toBe(1);
  });

  it('sees a validation loss that rises together with the loss of the trained rows', () => {
    const steps = rows(...supervised([-3, -2.9], [-3.5, -3.4], [-4, -4.1]));
    const found = collapseIn([validated(0, 3), ...steps, validated(3, 4.2)]);
    expect(found).toEqual({
      step: 3,
      text: 'the validation loss went from 3 nats per token after step 0 to 4.2 after step 3, and the trained rows did not become more likely, at the learning rate 0.03',
    });
    const byHeart = rows(...supervised([-3, -2], [-1, -0.5], [-0.2, -0.1]));
    expect(collapseIn([validated(0, 3), ...byHeart, validated(3, 4.2)])).toBeNull();
  });

  it('sees updates that make their own rows likely and those of all other steps unlikely', () => {
    const before = learned(...Array.from({ length: 8 }, (_, i) => 2 + (i % 2)));
    const after = learned(...Array.from({ length: 8 }, (_, i) => 5 + i));
    expect(collapseIn(rows(...before, ...after.slice(0, -1)))).toBeNull();
    expect(collapseIn(rows(...before, ...after))).toEqual({
      step: 8,
      text: 'no loss of the last 8 steps is below 5 nats per token, and the lowest mean of 8 steps was 2.5, at the learning rate 0.03',
    });
  });

  it('takes no alarm from small batches of easy and of hard rows, in any order {no fall of an own text, losses of one distribution}', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0.01, max: 6, noNaN: true }), { minLength: 1, maxLength: 200 }), (losses) => {
        const isMixed = losses.map((loss, i) => (i % 4 === 0 ? loss / 6 : loss));
        expect(collapseIn(rows(...learned(...isMixed)))).toBeNull();
      }),
    );
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
