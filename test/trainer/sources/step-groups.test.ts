import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { StepGroups, type StepGroupsOptions } from '../../../src/trainer/sources/step-groups.ts';
import { trajectory } from '../some-trajectories.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-step-'));
});
afterEach(() => rm(directory, { recursive: true }));

const OPTIONS: StepGroupsOptions = {
  step: 1,
  examplesPerStep: 2,
  rolloutsPerExample: 2,
  maxRefills: 0,
  maxStaleness: 2,
  staleGroups: 'drop',
  rows: 3,
  age: (sampled, trained) => trained - sampled,
};
const group = (row: string, version: number) =>
  [0, 1].map((i) => ({ trajectory: trajectory(`${row}/${i}`, { reward: i, policy: { model: 'm', version } }), asked: [], trace: [] }));

describe('StepGroups', () => {
  it('can have the row of a group that is too old again, and then has only the new one', async () => {
    const store = new RolloutFiles(directory);
    const groups = await StepGroups.open(store, OPTIONS);
    groups.add(group('a', 0), 1);
    groups.add(group('b', 5), 1);
    expect([groups.has('a', 1), groups.has('a', 5), groups.has('b', 5), groups.missing(5)]).toEqual([true, false, true, 1]);
    groups.add(group('a', 5), 1);
    expect([groups.has('a', 5), groups.missing(5)]).toEqual([true, 0]);
    await groups.complete(5);
    const divided = groups.divide(5);
    expect(divided).toMatchObject({ dropped: [], refused: [], staleness: 0 });
    await groups[Symbol.asyncDispose]();
    const again = await StepGroups.open(store, OPTIONS);
    expect(again.divide(9)).toEqual(divided);
    await again[Symbol.asyncDispose]();
  });
});
