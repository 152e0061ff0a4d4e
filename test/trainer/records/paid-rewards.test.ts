import { appendFileSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keptSteps, readKeptStep } from '../../../src/trainer/records/kept-steps.ts';
import { rewardsPath } from '../../../src/trainer/records/paid-rewards.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { type Trajectory, unpaid, withReward } from '../../../src/trainer/trajectory.ts';
import { trajectory } from '../some-trajectories.ts';

let directory: string;
let store: RolloutFiles;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-paid-'));
  store = new RolloutFiles(directory);
});
afterEach(() => rm(directory, { recursive: true }));

const PROPOSED = [0, 1, 2].map((index) => unpaid(trajectory(`p/${index}`, { metrics: { valid: 1 } })));

/** A phase whose first two rollouts are paid. */
async function paidPhase(step: number, phase?: string): Promise<void> {
  await using file = await store.open(step, phase);
  for (const each of PROPOSED) file.add(each);
  await file.complete(1);
  const paid = PROPOSED.slice(0, 2).map((each, i) => withReward(each, step + i / 3, { solved: i / 3 }));
  await store.pay(paid, step, phase);
}

async function rewards(): Promise<Record<string, (number | null)[]>> {
  const found: Record<string, (number | null)[]> = {};
  for (const kept of await keptSteps(directory))
    found[`${kept.step} ${kept.phase} ${kept.kept}`] = (await readKeptStep(kept)).map(({ reward }: Trajectory) => reward);
  return found;
}

describe('rewards that are paid later', () => {
  it('are those of a kept step, with their metrics, and not those of a resumed run', async () => {
    await paidPhase(1, 'propose');
    await paidPhase(1);
    expect(await rewards()).toEqual({ '1 propose live': [1, 1 + 1 / 3, null], '1 null live': [1, 1 + 1 / 3, null] });
    const [kept] = await keptSteps(directory);
    expect((await readKeptStep(kept!))[1]!.metrics).toEqual({ valid: 1, solved: 1 / 3 });
    await using again = await store.open(1, 'propose');
    expect(again.recorded.map(({ reward, isUnpaid }) => [reward, isUnpaid])).toEqual(PROPOSED.map(() => [null, true]));
    expect(await store.phases()).toHaveLength(2);
  });

  it('stay when a step is compressed, loses its tokens, or is needed again', async () => {
    for (const step of [1, 2, 3]) await paidPhase(step, 'propose');
    await store.archiveBefore(3, Infinity);
    const whole = { '1 propose whole': [1, 1 + 1 / 3, null], '2 propose whole': [2, 2 + 1 / 3, null], '3 propose live': [3, 3 + 1 / 3, null] };
    expect(await rewards()).toEqual(whole);
    await store.restoreFrom(2);
    expect(await rewards()).toMatchObject({ '2 propose live': [2, 2 + 1 / 3, null] });
    expect(readdirSync(directory).filter((name) => name.includes('_rewards'))).toEqual(
      [1, 2, 3].map((step) => `step-00000${step}.propose_rewards.jsonl${step === 1 ? '.gz' : ''}`),
    );
    await store.discardBefore(4);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('are gone before another rollout of their phase is on file', async () => {
    await paidPhase(1, 'propose');
    // Read only: nothing is played again.
    await (await store.open(1, 'propose'))[Symbol.asyncDispose]();
    expect(await rewards()).toEqual({ '1 propose live': [1, 1 + 1 / 3, null] });
    appendFileSync(join(directory, 'step-000001.propose.jsonl'), '{"restarted":true,"step":1}\n');
    await using again = await store.open(1, 'propose');
    expect(readdirSync(directory)).toEqual(['step-000001.propose.jsonl']);
    again.add(PROPOSED[0]!);
    expect(await rewards()).toEqual({ '1 propose live': [null] });
  });

  it('replace those of the rubric too, but give a failed rollout none', async () => {
    const error = { type: 'PolicyError', message: 'gone', retryable: true, source: 'policy' } as const;
    const played = [trajectory('p/0', { reward: 3.55 }), trajectory('p/1', { reward: 1 }), trajectory('p/2', { reward: null, error })];
    await using file = await store.open(1, 'solve');
    for (const each of played) file.add(each);
    await file.complete(1);
    const failed = { ...played[2]!, reward: 9, error: null };
    await store.pay([withReward(played[0]!, 9), failed], 1, 'solve');
    expect(await rewards()).toEqual({ '1 solve live': [9, 1, null] });
    await store.pay([], 1, 'solve');
    expect(await rewards()).toEqual({ '1 solve live': [3.55, 1, null] });
  });

  it('names a damaged line', async () => {
    await paidPhase(1, 'propose');
    appendFileSync(join(directory, 'step-000001.propose_rewards.jsonl'), '{"rollout_id":"p/2"}\n');
    await expect(rewards()).rejects.toThrow(/^Line 3 of .*step-000001\.propose_rewards\.jsonl is not a reward of a rollout \(.*\); delete the file$/);
  });
});

describe('rewardsPath', () => {
  it.each([
    ['step-000001.jsonl', 'step-000001_rewards.jsonl'],
    ['a/step-000001.propose.jsonl.gz', 'a/step-000001.propose_rewards.jsonl.gz'],
    ['step-000001.propose.jsonl.thin.gz', 'step-000001.propose_rewards.jsonl.gz'],
  ])('is, for the rollouts %s, %s', (path, rewardsOf) => {
    expect(rewardsPath(path)).toBe(rewardsOf);
  });
});
