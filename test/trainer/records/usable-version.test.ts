import { describe, expect, it } from 'vitest';
import { evaluationAfter, evaluationsOf, servingFault } from '../../../src/trainer/records/usable-version.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const row = (kind: MetricsRow['kind'], step: number, version: number | null, reward: number | null = 0.5): MetricsRow => ({
  kind,
  step,
  values: { policy_version: version, reward_mean: reward },
});
const at = (rows: readonly MetricsRow[]) => evaluationsOf(rows).map(({ step, values }) => [step, values['reward_mean']]);

describe('evaluationsOf', () => {
  it('leaves out evaluations of another setup than the newest, and keeps those whose setup is unknown', () => {
    const played = (step: number, reward: number, setup?: number): MetricsRow => {
      const { values, ...rest } = row('evaluation', step, step, reward);
      return { ...rest, values: setup === undefined ? values : { ...values, evaluation_setup: setup } };
    };
    const rows = [played(0, 0.1, 7), row('step', 1, 1), played(1, 0.2, 7), played(1, 1.2, 8), row('step', 2, 2)];
    expect(at(rows)).toEqual([[1, 1.2]]);
    expect(evaluationAfter(rows, 1)?.values['reward_mean']).toBe(1.2);
    expect(evaluationAfter(rows.slice(0, 3), 1)?.values['reward_mean']).toBe(0.2);
    expect(at([played(0, 0.1), row('step', 1, 1), played(1, 0.2, 7)])).toEqual([
      [0, 0.1],
      [1, 0.2],
    ]);
  });

  it('places an evaluation at the step of the version that played it, unless that version has its own', () => {
    const rows = [row('evaluation', 0, 0, 0.1), row('step', 1, 1), row('step', 2, 2), row('evaluation', 2, 1, 0.2), row('step', 3, 3)];
    expect(at([...rows, row('evaluation', 3, 1, 0.3)])).toEqual([
      [0, 0.1],
      [1, 0.2],
    ]);
    expect(at([...rows, row('evaluation', 3, 3, 0.4)])).toEqual([
      [0, 0.1],
      [1, 0.2],
      [3, 0.4],
    ]);
    expect(at([row('evaluation', 0, 0, 0.1), row('step', 1, 1), row('evaluation', 1, 0, 0.7)])).toEqual([[0, 0.1]]);
    // A version that served only later was evaluated again, at its own step.
    expect(at([...rows.slice(0, 4), row('evaluation', 2, 2, 0.9)])).toEqual([
      [0, 0.1],
      [1, 0.2],
      [2, 0.9],
    ]);
  });

  it('leaves one at its step that followed steps without an update, or of which every rollout failed', () => {
    const rows = [row('step', 1, 1), row('step', 2, 1), row('evaluation', 2, 1, 0.2), row('step', 3, 3), row('evaluation', 3, null, null)];
    expect(at(rows)).toEqual([
      [2, 0.2],
      [3, null],
    ]);
  });
});

describe('evaluationAfter', () => {
  it("returns the evaluation of an adapter's own version, whenever it was played, and no other", () => {
    const rows = [row('step', 1, 1), row('evaluation', 1, 1, 0.2), row('step', 2, 1), row('step', 3, 3), row('evaluation', 3, 1, 0.3)];
    expect(evaluationAfter(rows, 2)?.values['reward_mean']).toBe(0.2);
    expect(evaluationAfter(rows, 3)).toBeNull();
    expect(evaluationAfter([row('evaluation', 0, 0)], 0)).not.toBeNull();
    expect(evaluationAfter([], 3)).toBeNull();
  });
});

describe('servingFault', () => {
  it('is null where the trained version serves, and else names both versions, the reason and the way on', () => {
    expect(servingFault({ trained: 3, serves: 3, why: null })).toBeNull();
    expect(servingFault({ trained: 3, serves: 1, why: 'no memory' })).toBe(
      'All steps are done, but their result, version 3, does not serve: the servers still have version 1, because a publish failed: no memory. It is in the last checkpoint. -R publishes it again and plays its evaluation',
    );
    for (const serves of [0, null]) expect(servingFault({ trained: 2, serves, why: null })).toContain('the servers still have the base. It');
  });
});
