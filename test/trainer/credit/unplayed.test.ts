/** Rollouts that were never played, because the prompt left no room for a token: no credit sees them, and what is left is as if they had never been asked for. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UNPLAYED } from '../../../src/rollouts/rollout.ts';
import type { CreditBatch, CreditedBatch } from '../../../src/trainer/credit.ts';
import { checkedCredit } from '../../../src/trainer/credit/checked-credit.ts';
import { creditBatch } from '../../../src/trainer/credit/credit-batch.ts';
import { builtInCredit } from '../../../src/trainer/credit/registry.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { passOver } from './credit-cases.ts';

const CREDITS: Readonly<Record<string, Record<string, unknown>>> = {
  GRPO: { advantage: { std: 'sample' } },
  'Dr. GRPO': { advantage: { std: 'none' } },
  RLOO: { advantage: { std: 'none', baseline: 'leave_one_out' } },
  'REINFORCE++': { advantage: { scope: 'batch', weighting: 'token' } },
  'REINFORCE++ with a decay': { advantage: { scope: 'batch', decay: 0.5 } },
  'by role and task': { advantage: { scope: 'role_task' } },
  'no comparison': { advantage: { scope: 'none' } },
  'turns, returns': { advantage: { use: 'turns', args: { gamma: 0.9 } } },
  'turns, sums': { advantage: { use: 'turns', args: { estimate: 'sum' } } },
  'turns, all': { advantage: { use: 'turns', args: { compare: 'all' } } },
};

const member = fc.record({
  group: fc.constantFrom('a', 'b', 'c'),
  reward: fc.option(fc.integer({ min: -2, max: 2 }), { nil: null, freq: 3 }),
  turns: fc.array(fc.option(fc.integer({ min: -2, max: 2 }), { nil: null }), { minLength: 1, maxLength: 3 }),
});
/** Groups in one order, whichever of their rollouts were played. */
const members = fc.array(member, { minLength: 1, maxLength: 10 }).map((all) => all.toSorted((a, b) => (a.group < b.group ? -1 : 1)));

/** Those with the reward null were never played. */
function rollouts(
  of: readonly { readonly group: string; readonly reward: number | null; readonly turns: readonly (number | null)[] }[],
): Trajectory[] {
  return of.map(({ group, reward, turns }, index) => {
    const targets = Int32Array.from(turns, (_, i) => 2 + 2 * i);
    const played = { ids: new Int32Array(2 + 2 * turns.length), targets, logProbs: new Float64Array(turns.length).fill(-1), turnRewards: turns };
    const error = { type: UNPLAYED, message: 'no room', retryable: false, source: 'prompt' } as const;
    const unplayed = {
      error,
      metrics: {},
      ids: new Int32Array(0),
      targets: new Int32Array(0),
      logProbs: new Float64Array(0),
      stop: 'prompt_too_long',
    };
    return trajectory(`${group}/${index}`, { reward, ...(reward === null ? unplayed : played) });
  });
}

const shown = ({ groups }: CreditedBatch) =>
  groups.map((group) =>
    group.map(({ trajectory: { rolloutId }, advantages, targets }) => ({ rolloutId, advantages: [...advantages], targets: [...targets] })),
  );

describe('a group of which some rollouts were never played', () => {
  it.each(Object.entries(CREDITS))(
    '%s credits the others as if these had never been asked for, for { any rewards and turns }',
    async (_, algorithm) => {
      const config = someConfig({ algorithm });
      const credited = (trajectories: readonly Trajectory[]) =>
        creditBatch(builtInCredit(config), trajectories, { config, step: 1, pass: passOver() });
      await fc.assert(
        fc.asyncProperty(members, async (of) => {
          const all = rollouts(of);
          const [with_, without] = [await credited(all), await credited(all.filter(({ reward }) => reward !== null))];
          expect(shown(with_)).toEqual(shown(without));
          for (const { advantages } of with_.groups.flat()) expect(advantages.every(Number.isFinite)).toBe(true);
        }),
      );
    },
  );

  it('a credit of a module sees only those that were played, in groups, and the others among the failed ones, for { any rewards and turns }', async () => {
    const config = someConfig({ algorithm: { advantage: { use: './mine.ts' } } });
    await fc.assert(
      fc.asyncProperty(members, async (of) => {
        const all = rollouts(of);
        let seen: CreditBatch | null = null;
        const assign = (batch: CreditBatch) => {
          seen = batch;
          return { advantages: batch.groups.map((group) => group.map(({ reward }) => reward)) };
        };
        const { groups } = await creditBatch(
          checkedCredit(() => ({ assign }), config, './mine.ts'),
          all,
          { config, step: 1, pass: passOver() },
        );
        const played = all.filter(({ reward }) => reward !== null).map(({ rolloutId }) => rolloutId);
        const batch = seen as CreditBatch | null;
        expect(
          batch?.groups
            .flat()
            .map(({ trajectory: { rolloutId } }) => rolloutId)
            .toSorted() ?? [],
        ).toEqual(played.toSorted());
        expect(batch?.groups.every(({ length }) => length > 0) ?? true).toBe(true);
        expect(batch?.failed.length ?? all.length).toBe(all.length - played.length);
        expect(
          groups
            .flat()
            .map(({ trajectory: { rolloutId } }) => rolloutId)
            .toSorted(),
        ).toEqual(played.toSorted());
      }),
    );
  });
});
