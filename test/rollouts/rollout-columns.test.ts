import { describe, expect, it } from 'vitest';
import { factColumns, factsOf, roleAndTask, usageColumns } from '../../src/rollouts/rollout-columns.ts';
import { trajectory } from '../trainer/some-trajectories.ts';

describe('factColumns', () => {
  it.each([
    ['a task and a role', { task: 'code_o', role: 'solve' }],
    ['neither', {}],
  ])('is read back with %s', (_, labels) => {
    const { metrics, error, ...facts } = trajectory('a/0', { reward: 0.5, task: null, ...labels });
    const columns = factColumns({ ...facts, metrics, error });
    expect(columns).toMatchObject(labels);
    expect(facts).toMatchObject(factsOf({ ...columns, token_usage: usageColumns(facts.usage) }));
  });
});

describe('roleAndTask', () => {
  it('leaves out what rows do not have, and the role of an environment with one speaker', () => {
    expect(roleAndTask({ role: 'policy', task: null })).toEqual({});
    expect(roleAndTask({})).toEqual({});
    expect(roleAndTask({ role: 'critique', task: 'code_f' })).toEqual({ role: 'critique', task: 'code_f' });
  });
});
