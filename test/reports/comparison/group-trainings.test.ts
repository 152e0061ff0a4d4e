import { describe, expect, it } from 'vitest';
import type { ComparedTraining } from '../../../src/reports/comparison/compared-training.ts';
import { groupTrainings } from '../../../src/reports/comparison/group-trainings.ts';

const ARGS = 'algorithm.advantage.args';

/** An arm of an ablation; one that has begun has a configuration, with the table that it sweeps next to one that it does not. */
function arm(args: Readonly<Record<string, unknown>>, hasBegun: boolean): ComparedTraining {
  const config = { name: 'a', steps: 4, seed: 0, algorithm: { advantage: { use: './credit.ts', args: { scale: 2, ...args } } } };
  return {
    name: 'a',
    directory: hasBegun ? '/runs/a' : null,
    config: hasBegun ? config : null,
    swept: { [ARGS]: args },
    seed: 0,
    state: hasBegun ? 'finished' : 'unfinished',
    reason: null,
    step: 0,
    steps: 4,
    evaluations: [],
    metrics: [],
    tokens: { sampled: 0, trained: 0 },
    seconds: 0,
  };
}

const labels = (runs: readonly ComparedTraining[]) => groupTrainings(runs).map(({ label }) => label);

describe('groupTrainings', () => {
  it('gives an arm of tables that has not begun no setting of an arm that has: its label is the one that it has in the end', () => {
    const tables = [{ gamma: 0.9 }, { bad: 'nan', at: 3 }];
    const ended = labels(tables.map((args) => arm(args, true)));
    expect(ended).toEqual(['gamma 0.9, bad unset, at unset', 'gamma unset, bad nan, at 3']);
    expect(labels(tables.map((args, i) => arm(args, i === 0)))).toEqual(ended);
  });
});
