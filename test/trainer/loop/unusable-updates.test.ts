/** Updates that would do harm: the policy has moved too far from the one that sampled, or nobody knows how likely a token was. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CreateSource } from '../../../src/trainer/trajectory-source.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-unusable-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const run = (config: Record<string, unknown>, createSource?: CreateSource) =>
  trainSmall(path, {
    backend: async () => new UnigramBackend(),
    ...(createSource === undefined ? {} : { createSource }),
    config: { steps: 3, evaluation: { every: 0 }, ...config },
  });
const again = async () => void (path = await newRun(await mkdtemp(join(parent, 'again-'))));

describe('guards.skip_kl', () => {
  const RATIO = { use: 'ratio', args: {} };
  const RPG = { use: 'rpg', args: { beta: 0.05 } };
  const algorithm = (loss: object) => ({ loss, minibatches: 1, epochs: 2, kl: { coefficient: 0 }, correction: { level: 'none' } });

  it.each([
    ['ratio', RATIO],
    ['rpg', RPG],
  ])('skips the optimiser steps whose KL is above it, shows that KL, and continues: %s', async (_, loss) => {
    // The second epoch finds a policy that one large step has moved.
    const config = { algorithm: algorithm(loss), optimizer: { learning_rate: 0.5 } };
    await run(config);
    const free = await rowsOf(path);
    expect(free.map((row) => [row['optimizer_steps'], row['optimizer_steps_skipped']])).toEqual(Array.from({ length: 3 }, () => [2, 0]));
    const kl = free[0]!['approx_kl'] as number;
    expect(kl).toBeGreaterThan(0.01);
    await again();
    expect(await run({ ...config, guards: { skip_kl: 0.01 } })).toMatchObject({ reason: 'finished', version: 3 });
    const guarded = await rowsOf(path);
    expect(guarded.map((row) => [row['optimizer_steps'], row['optimizer_steps_skipped']])).toEqual(Array.from({ length: 3 }, () => [1, 1]));
    expect(guarded[0]!['approx_kl']).toBeCloseTo(kl, 12);
    const alarms = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm').map(({ message }) => message);
    expect(alarms).toHaveLength(3);
    expect(alarms[0]).toMatch(/^1 of 2 optimiser steps were skipped, because the KL was above guards\.skip_kl \(approx_kl\)/);
    // One epoch gives the same weights: the skipped steps changed nothing.
    const skipped = await finalAdapter(await run({ ...config, guards: { skip_kl: 0.01 } }), 'unigram.json');
    await again();
    const once = await run({ ...config, algorithm: { ...algorithm(loss), epochs: 1 } });
    expect(await finalAdapter(once, 'unigram.json')).toEqual(skipped);
  });

  it('counts a step whose every update was skipped as one without an update, and stops after too many', async () => {
    const far = { ...algorithm(RPG), epochs: 1, old_log_probs: 'sampler' };
    const outcome = await run({ algorithm: far, guards: { skip_kl: 0, max_skipped_steps: 2 } });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 2, version: 0 });
    expect(outcome.message).toContain('the last: the KL between the policy and the one that is trained was above guards.skip_kl');
    expect((await rowsOf(path)).every((row) => (row['approx_kl'] as number) > 0)).toBe(true);
  });

  it('lets everything through where the KL is at most its bound', async () => {
    await run({ algorithm: { ...algorithm(RATIO), epochs: 1, old_log_probs: 'trainer' }, guards: { skip_kl: 0 } });
    expect((await rowsOf(path)).map((row) => row['optimizer_steps_skipped'])).toEqual([0, 0, 0]);
  });
});

describe('tokens without a finite log-prob of the sampler', () => {
  /** The batch of the step with the first token of each rollout changed. */
  const changing = (change: (trajectory: Trajectory) => Trajectory): CreateSource => {
    return ({ play, environment }) => ({
      async take(step, signal) {
        const rows = [0, 1, 2].map((i) => environment.train.at((3 * step + i) % environment.train.length));
        const batch = await play({ step, rows }, signal);
        return { ...batch, trajectories: batch.trajectories.map(change) };
      },
      needsPolicy: () => true,
      saveState: async () => {},
      loadState: async () => {},
    });
  };
  const unknown = (value: number) => (trajectory: Trajectory) => ({ ...trajectory, logProbs: trajectory.logProbs!.with(0, value) });
  const left = ({ targets, logProbs, ...trajectory }: Trajectory): Trajectory => ({
    ...trajectory,
    targets: targets.subarray(1),
    logProbs: logProbs!.subarray(1),
  });

  it.each([
    ['ratio', { use: 'ratio' }, NaN],
    ['rpg', { use: 'rpg', args: { beta: 0.05, aggregation: 'role_token_mean' } }, -Infinity],
    ['rpg with a ratio of the sequence', { use: 'rpg', args: { beta: 0.05, ratio: 'sequence' } }, NaN],
  ])('leave the update as if they were not targets, and are counted: %s', async (_, loss, value) => {
    const config = { algorithm: { loss, old_log_probs: 'sampler', kl: { coefficient: 0 }, correction: { level: 'none' } } };
    const expected = await finalAdapter(await run(config, changing(left)), 'unigram.json');
    const clean = await rowsOf(path);
    expect(clean.every((row) => row['tokens_dropped'] === 0)).toBe(true);
    await again();
    expect(await finalAdapter(await run(config, changing(unknown(value))), 'unigram.json')).toEqual(expected);
    const rows = await rowsOf(path);
    for (const [i, row] of rows.entries()) {
      expect(row['tokens_dropped']).toBeGreaterThan(0);
      for (const name of ['loss', 'entropy', 'trained_tokens', 'ratio_mean']) expect(row[name]).toBe(clean[i]![name]);
    }
    const alarms = (await eventsOf(path)).filter(({ kind }) => kind === 'alarm').map(({ message }) => message);
    expect(alarms).toHaveLength(3);
    expect(alarms[0]).toMatch(/^\d+ tokens were left out of the update \(tokens_dropped\): the old or the reference policy has no finite log-prob/);
  });
});

describe('a learning rate that is far too high', () => {
  it.each([5, 50])('raises an alarm in its first step, with the log-probs before and after: %s', async (rate) => {
    await run({ optimizer: { learning_rate: rate } });
    const [first] = await rowsOf(path);
    const [before, after] = [first!['update_log_prob_before'] as number, first!['update_log_prob_after'] as number];
    expect(before - after).toBeGreaterThan(2);
    const alarms = (await eventsOf(path)).filter(({ message }) => message.startsWith('The policy has collapsed'));
    expect(alarms).toHaveLength(1);
    expect(alarms[0]).toMatchObject({ kind: 'alarm', step: 1 });
    expect(alarms[0]!.message).toContain('Start a new run with --lr 0.001');
  });

  it('is none where the policy learns', async () => {
    await run({});
    const rows = await rowsOf(path);
    for (const row of rows) expect(Math.abs((row['update_log_prob_before'] as number) - (row['update_log_prob_after'] as number))).toBeLessThan(0.1);
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'alarm')).toEqual([]);
  });
});
