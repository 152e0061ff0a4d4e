import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import type { Credit, CreditBatch } from '../../../src/trainer/credit.ts';
import { checkedCredit } from '../../../src/trainer/credit/checked-credit.ts';
import { creditRollout } from '../../../src/trainer/credit/credit-batch.ts';
import { tryCredit } from '../../../src/trainer/credit/try-credit.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

const MODULE = './mine.ts (algorithm.advantage.use)';
const ROWS = { rows: [{ exampleId: 'river', role: 'solve' }, { exampleId: 7 }], metrics: ['em', 'searches'] };

const tried = (credit: object, config: Record<string, unknown> = {}) =>
  tryCredit(
    { createCredit: () => credit as Credit, module: MODULE },
    someConfig({ algorithm: { advantage: { use: './mine.ts' } }, ...config }),
    ROWS,
  );

const assigning = (assign: (batch: CreditBatch) => unknown) => ({ assign });
const each = (advantage: (rollout: CreditBatch['groups'][number][number]) => unknown) =>
  assigning(({ groups }) => ({ advantages: groups.map((group) => group.map(advantage)) }));

describe('tryCredit', () => {
  it('gives a credit rollouts of the real rows and metrics, with turns that differ, one without tokens, some with a reward, and one that failed', async () => {
    const seen: CreditBatch[] = [];
    const credit = assigning((batch) => {
      seen.push(batch);
      return { advantages: batch.groups.map((group) => group.map(({ turns }) => turns.map(({ reward }) => reward ?? 0))) };
    });
    await tried(credit, { rollouts: { rollouts_per_example: 5 } });
    const [batch] = seen;
    expect(batch!.step).toBe(0);
    expect(batch!.groups.map((group) => [group[0]!.trajectory.groupId, group[0]!.trajectory.role, group.length])).toEqual([
      ['river', 'solve', 4],
      ['7', 'policy', 4],
    ]);
    expect(batch!.failed.map(({ rolloutId }) => rolloutId)).toEqual(['7/4']);
    expect(batch!.groups[0]!.map(({ turns }) => turns.map(({ start, end }) => end - start))).toEqual([[3, 2], [4], [2, 0, 1], [5]]);
    expect(batch!.groups[0]![0]!.trajectory.metrics).toEqual({ em: 0.5, searches: 0.5 });
    expect(batch!.groups[0]![0]!.turns.map(({ reward, text }) => [reward, text])).toEqual([
      [0.25, '<search>turn 0</search>'],
      [null, '<search>turn 1</search>'],
    ]);
  });

  it('gives groups of one where each row is played once, and penalties and kinds to a credit that needs them', async () => {
    const sizes: number[] = [];
    const needs = { penalties: true, kinds: true };
    const credit = {
      needs,
      ...assigning(({ groups }) => {
        sizes.push(...groups.map(({ length }) => length));
        return {
          advantages: groups.map((group) =>
            group.map(({ penalties, kinds }) => Float64Array.from(penalties!, (value, t) => value * kinds![t]!.length)),
          ),
        };
      }),
    };
    await tried(credit, {
      rollouts: { rollouts_per_example: 1 },
      algorithm: { advantage: { use: './mine.ts' }, kl: { coefficient: 1, placement: 'reward' } },
    });
    expect(sizes).toEqual([1, 1]);
  });

  it.each([
    ['NaN', each(() => NaN), /advantages\[0\]\[0\], of the rollout river\/0, must be finite, got NaN/],
    ['a number too many for the turns', each(({ turns }) => [...turns.map(() => 0), 1]), /must have a number for each of its 2 turns, got 3/],
    ['a list for tokens', each(({ tokens }) => Array.from({ length: tokens }, () => 1)), /give one for each token as a Float64Array/],
    ['a promise in its list', each(async () => 1), /is a promise; it must be the value itself/],
    ['its advantages in a promise', assigning(async () => ({ advantages: [] })), /must not be async: it must return \{ advantages \}, not a Promise/],
    ['one group too few', assigning(({ groups }) => ({ advantages: [groups[0]!.map(() => 0)] })), /a list for each of the 2 groups, got 1/],
    ['nothing', assigning(() => undefined), /it must be \{ advantages \}/],
    [
      'an error',
      assigning(() => {
        throw new Error('no such table');
      }),
      /^assign of the credit \.\/mine\.ts \(algorithm\.advantage\.use\) failed: Error: no such table/,
    ],
    [
      'a sorted group',
      assigning(({ groups }) => {
        for (const group of groups) (group as (typeof group)[number][]).sort((a, b) => b.reward - a.reward);
        return { advantages: groups.map((group) => group.map(() => 0)) };
      }),
      /A batch must stay as it is: change a copy, such as \[\.\.\.group\] or group\.toSorted\(\)/,
    ],
    ['another reward', each(({ trajectory: t }) => ((t as { reward: number }).reward = 1)), /A batch must stay as it is/],
    [
      'changed log-probs',
      each(({ trajectory: { logProbs } }) => logProbs!.fill(0)),
      /changed the ids, targets or log-probs of the rollout river\/0; make a copy/,
    ],
  ])('refuses a credit that gives %s, before anything is sampled', async (_, credit, message) => {
    const found = tried(credit);
    await expect(found).rejects.toThrow(ConfigError);
    await expect(found).rejects.toThrow(message);
    await expect(found).rejects.toThrow(/\. Found on made-up rollouts \(step 0\), before anything was sampled$/);
  });

  it('gives up a state that is never saved, and names the module and the setting', async () => {
    const credit = { ...each(() => 1), saveState: () => new Promise(() => {}), loadState: async () => {} };
    const found = tried(credit, { rollouts: { scoring_timeout_s: 0.05 } });
    await expect(found).rejects.toThrow(ConfigError);
    await expect(found).rejects.toThrow(
      `saveState of the credit ${MODULE} did not end within 0.05 s: a promise that it awaits may never settle. Raise rollouts.scoring_timeout_s if it needs more time.`,
    );
  });

  it('saves the state that the made-up rollouts left, and has another instance read it; the instance of the run has seen nothing', async () => {
    let read: string | null = null;
    const makes: number[] = [];
    const createCredit = () => {
      let batches = 0;
      makes.push(0);
      return {
        assign: ({ groups }: CreditBatch) => {
          batches++;
          return { advantages: groups.map((group) => group.map(() => 1)) };
        },
        saveState: (directory: string) => writeFile(join(directory, 'state'), String(batches)),
        loadState: async (directory: string) => {
          read = directory;
        },
      };
    };
    await tryCredit({ createCredit, module: MODULE }, someConfig({ algorithm: { advantage: { use: './mine.ts' } } }), ROWS);
    expect(read).not.toBeNull();
    expect(makes).toHaveLength(2);
    const failing = {
      ...each(() => 1),
      saveState: async () => {},
      loadState: () => Promise.reject(new Error('no file')),
      assign: each(() => 1).assign,
    };
    await expect(tried({ ...failing, saveState: (directory: string) => writeFile(join(directory, 'x'), '') })).rejects.toThrow(
      /^loadState of the credit .* failed: Error: no file/,
    );
  });
});

/** A batch as a module without types sees it. */
interface ChangedBatch {
  groups: { reward: number; turns: { start: number }[]; trajectory: { reward: number; metrics: Record<string, number> } }[][];
}

describe('checkedCredit', () => {
  it.each<readonly [string, (batch: ChangedBatch) => unknown]>([
    ['the list of groups', (batch) => (batch.groups = [])],
    ['the groups', ({ groups }) => groups.push([])],
    ['a group', ({ groups }) => groups[0]!.fill(0 as never)],
    ['a reward', ({ groups }) => (groups[0]![0]!.reward = 0)],
    ['a turn', ({ groups }) => (groups[0]![0]!.turns[0]!.start = 1)],
    ['the turns', ({ groups }) => groups[0]![0]!.turns.pop()],
    ['a trajectory', ({ groups }) => (groups[0]![0]!.trajectory.reward = 0)],
    ['a metric', ({ groups }) => (groups[0]![0]!.trajectory.metrics['em'] = 0)],
  ])('gives a batch that cannot be changed, in every step: %s', (_, change) => {
    const config = someConfig({ algorithm: { advantage: { use: './mine.ts' } } });
    const changing = assigning((batch) => {
      change(batch as unknown as ChangedBatch);
      return { advantages: batch.groups.map((group) => group.map(() => 1)) };
    });
    const credit = checkedCredit(() => changing as Credit, config, MODULE);
    const groups = [[0, 1].map((index) => creditRollout(trajectory(`a/${index}`)))];
    expect(() => credit.assign({ step: 3, groups, failed: [] })).toThrow(/^assign of the credit .* A batch must stay as it is/);
  });
});
