import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { endUntil, EXAMPLES, ROLLOUTS, rowsOf, stream, until } from './scripted-stream.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-stream-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('StreamedSource', () => {
  it('gives every step its groups, in the order in which they end, no row twice in a pass, none older than allowed {any order}', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.integer({ min: 2, max: 4 }), async (seed, maxStaleness) => {
        const folder = await mkdtemp(join(directory, 'any-'));
        const running = await stream(folder, { steps: 10, rollouts: { max_staleness: maxStaleness } });
        const random = Random.fromSeed(seed);
        const ended: string[] = [];
        const seen: string[] = [];
        for (let step = 1; step <= 10; step++) {
          const batch = await endUntil(running.take(step), running, (playing) => {
            const own = playing.length === 0 ? undefined : playing[Math.floor(random.float() * playing.length)];
            if (own !== undefined) ended.push(String(own.plan.row.exampleId));
            return own;
          });
          const rows = rowsOf(batch);
          expect(rows).toHaveLength(EXAMPLES);
          expect(batch.trajectories).toHaveLength(EXAMPLES * ROLLOUTS);
          expect(rows.map((row) => ended.indexOf(row))).toEqual(rows.map((row) => ended.indexOf(row)).toSorted((a, b) => a - b));
          for (const { policy } of batch.trajectories) expect(running.version - policy.version).toBeLessThanOrEqual(maxStaleness);
          seen.push(...rows);
          running.train(step);
        }
        const dropped = running.begun.length - seen.length;
        expect(new Set(seen).size).toBeGreaterThanOrEqual(30 - dropped);
        running.stop.abort();
        await running.source.close();
      }),
      { numRuns: 6 },
    );
  });

  it('does not wait for a long group that others can replace', async () => {
    const running = await stream(directory);
    const first = running.take(1);
    await until(() => running.playing.length > EXAMPLES);
    const [slow] = running.playing;
    const batch = await endUntil(first, running, (playing) => playing.find((each) => each !== slow));
    expect(rowsOf(batch)).not.toContain(String(slow!.plan.row.exampleId));
    running.train(1);
    slow!.end();
    const second = await endUntil(running.take(2), running, (playing) => playing[0]);
    expect(rowsOf(second)).toContain(String(slow!.plan.row.exampleId));
    running.stop.abort();
    await running.source.close();
  });

  it('reports a step in which many rollouts were not played, and stops at one in which none was, which a later process plays again', async () => {
    const running = await stream(directory, { rollouts: { max_staleness: 2 } });
    const first = running.take(1);
    await until(() => running.playing.length >= EXAMPLES);
    const [one, two, three] = running.playing.slice();
    one!.end();
    for (const group of [two!, three!]) group.end({ rewards: [null, null] });
    expect((await first).trajectories.filter(({ reward }) => reward === null)).toHaveLength(4);
    expect(running.reported).toEqual([
      expect.stringMatching(/^4 of 6 rollouts could not be played; the first, .*: The prompt has 9 tokens, and .*take no part$/),
    ]);
    const second = running.take(2);
    await until(() => running.playing.length >= EXAMPLES);
    for (const group of running.playing.slice()) group.end({ rewards: [null, null] });
    await expect(second).rejects.toThrow(/^Stopped at step 2: None of the 6 rollouts could be played; .*window 8\. Then continue this run with -R$/);
    running.stop.abort();
    await running.source.close();
    const resumed = await stream(directory);
    const again = await endUntil(resumed.take(2), resumed, (playing) => playing[0]);
    expect(again.trajectories.map(({ reward }) => reward === null)).toEqual(Array.from({ length: EXAMPLES * ROLLOUTS }, () => false));
    resumed.stop.abort();
    await resumed.source.close();
  });

  it('begins no more groups than the steps within reach lack', async () => {
    const running = await stream(directory, { rollouts: { max_staleness: 3, max_concurrent: 1000 } });
    const first = running.take(1);
    await until(() => running.playing.length > 0);
    expect(running.begun).toHaveLength(3 * EXAMPLES);
    for (const each of running.playing.slice(0, EXAMPLES)) each.end();
    await first;
    // Step 4 came into reach.
    expect(running.begun).toHaveLength(4 * EXAMPLES);
    for (const each of running.playing.slice()) each.end();
    await until(() => running.playing.length === 0);
    await running.source.close();
    expect(running.begun).toHaveLength(4 * EXAMPLES);
  });

  it('plays at most twice as many groups as fill the slots', async () => {
    const running = await stream(directory, { rollouts: { max_staleness: 8, max_concurrent: 4 } });
    void running.take(1);
    await until(() => running.playing.length > 0);
    expect(running.playing).toHaveLength(2 * (4 / ROLLOUTS));
    running.stop.abort();
    await running.source.close();
  });

  it.each([
    { staleGroups: 'drop', weights: [], discarded: 2 },
    { staleGroups: 'weight', weights: [2 / 4, 2 / 4], discarded: 0 },
  ])('deals with a group that became too old: $staleGroups', async ({ staleGroups, weights, discarded }) => {
    const running = await stream(directory, { rollouts: { stale_groups: staleGroups, max_concurrent: 1000 } });
    const first = running.take(1);
    await until(() => running.playing.length > 0);
    const slow = running.playing[0]!;
    await endUntil(first, running, (playing) => playing.find((each) => each !== slow));
    for (let step = 2; step <= 4; step++) {
      running.train(step - 1);
      await endUntil(running.take(step), running, (playing) => playing.find((each) => each !== slow));
    }
    running.train(4);
    slow.end();
    const batch = await endUntil(running.take(5), running, (playing) => playing[0]);
    const row = String(slow.plan.row.exampleId);
    expect(batch.values).toMatchObject({ groups_stale: 1 });
    expect(rowsOf(batch)).toHaveLength(EXAMPLES);
    const isOld = ({ groupId }: { readonly groupId: string }) => groupId === row;
    expect(batch.trajectories.filter(isOld).map(({ staleWeight }) => staleWeight)).toEqual(weights);
    expect(batch.trajectories.every((each) => isOld(each) || each.staleWeight === undefined)).toBe(true);
    expect(batch.discarded!.filter(isOld)).toHaveLength(discarded);
    expect(batch.discarded).toHaveLength(discarded);
    // The same from the file, whatever version asks.
    const step = await running.store.open(5);
    expect(step).toMatchObject({ isComplete: true, version: 4 });
    await step[Symbol.asyncDispose]();
    running.stop.abort();
    await running.source.close();
    const again = await stream(directory, { rollouts: { stale_groups: staleGroups } });
    again.train(9);
    expect(await again.take(5)).toEqual(batch);
    again.stop.abort();
    await again.source.close();
  });

  it('counts updates, not steps that changed nothing, and does so still after a resume', async () => {
    const before = await stream(directory, { rollouts: { max_concurrent: 1000 } });
    await endUntil(before.take(1), before, (playing) => playing[0]);
    const slow = before.playing[0]!;
    // Only steps 1 and 6 change the weights.
    for (let step = 2; step <= 6; step++) {
      before.train(1);
      await endUntil(before.take(step), before, (playing) => playing.find((each) => each !== slow));
    }
    await before.source.saveState(join(directory, 'state'));
    before.train(6);
    slow.end();
    const batch = await endUntil(before.take(7), before, (playing) => playing[0]);
    expect(batch.values).toMatchObject({ groups_stale: 0, staleness: 2 });
    expect(rowsOf(batch)).toContain(String(slow.plan.row.exampleId));
    before.stop.abort();
    await before.source.close();
    const after = await stream(directory);
    await after.source.loadState(join(directory, 'state'));
    after.train(6);
    expect(await after.take(7)).toEqual(batch);
    after.stop.abort();
    await after.source.close();
  });

  it('takes no groups of equal rewards, up to max_refills times those of a step', async () => {
    const running = await stream(directory, { rollouts: { max_refills: 1, max_concurrent: 1000 } });
    const first = running.take(1);
    for (let i = 0; i < 2 * EXAMPLES; i++) {
      await until(() => running.playing.length > 0);
      running.playing[0]!.end({ rewards: [1, 1] });
      await new Promise((resolve) => setImmediate(resolve));
    }
    const batch = await first;
    expect(rowsOf(batch)).toHaveLength(EXAMPLES);
    expect(batch.discarded).toHaveLength(EXAMPLES * ROLLOUTS);
    expect(batch.values).toMatchObject({ groups_refilled: EXAMPLES });
    running.stop.abort();
    await running.source.close();
  });

  it('takes groups of equal rewards where the data have no further rows for the step', async () => {
    const running = await stream(directory, { rows: EXAMPLES + 1, steps: 3, rollouts: { max_refills: 5, max_concurrent: 1000 } });
    const first = running.take(1);
    let ended = 0;
    const state = { isSettled: false };
    void first.finally(() => (state.isSettled = true));
    while (!state.isSettled && ended < 100) {
      if (running.playing.length > 0) running.playing[0]!.end({ rewards: ended++ < 3 ? [1, 1] : [0, 1] });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(ended).toBeLessThan(20);
    const batch = await first;
    expect(rowsOf(batch)).toHaveLength(EXAMPLES);
    expect(batch.values).toMatchObject({ groups_refilled: 1 });
    running.stop.abort();
    await running.source.close();
  });

  it('lets the groups of a step share what may fail', async () => {
    const running = await stream(directory, { rollouts: { max_error_rate: 0.5, max_concurrent: 1000 } });
    void running.take(1);
    await until(() => running.playing.length > 0);
    const [one, two, three, four] = running.playing;
    expect(four!.plan.allowedFailures()).toBe(3);
    one!.end({ failed: 2 });
    await until(() => four!.plan.allowedFailures() === 1);
    two!.end({ failed: 0 });
    three!.end({ failed: 0 });
    // The step's worth of groups that ended last no longer holds the first.
    await until(() => four!.plan.allowedFailures() === 3);
    running.stop.abort();
    await running.source.close();
  });

  it('goes on from files and cursor with rows that were not used', async () => {
    const before = await stream(directory, { rollouts: { max_concurrent: 1000 } });
    const taking = before.take(1);
    await until(() => before.playing.length === 2 * EXAMPLES);
    for (const each of before.playing.slice(-EXAMPLES)) each.end();
    const first = await taking;
    await before.source.saveState(join(directory, 'state'));
    before.train(1);
    before.playing[0]!.end();
    before.playing[0]!.end();
    const lost = before.playing.map(({ plan }) => String(plan.row.exampleId));
    const filed = async () => {
      const step = await before.store.open(2);
      await step[Symbol.asyncDispose]();
      return step.recorded.length >= 2 * ROLLOUTS;
    };
    while (!(await filed()));
    before.stop.abort();
    await before.source.close();

    const after = await stream(directory, { rollouts: { max_concurrent: 1000 } });
    await after.source.loadState(join(directory, 'state'));
    after.train(1);
    const second = await endUntil(after.take(2), after, (playing) => playing[0]);
    const used = [...rowsOf(first), ...rowsOf(second)];
    expect(new Set(used).size).toBe(2 * EXAMPLES);
    for (const row of rowsOf(first)) expect(after.begun).not.toContain(row);
    // Those that were in flight come first.
    expect(lost).toHaveLength(4);
    expect(after.begun.slice(0, 4)).toEqual(lost);
    after.stop.abort();
    await after.source.close();
  });

  it('ends with the error of a group once the step cannot do without it', async () => {
    const running = await stream(directory);
    const first = running.take(1);
    await until(() => running.playing.length > 0);
    running.playing[0]!.fail(new Error('the reward is broken'));
    await expect(first).rejects.toThrow('the reward is broken');
    running.stop.abort();
    await running.source.close();
  });

  it('needs the policy while a step within reach is not on file', async () => {
    const running = await stream(directory, { steps: 4 });
    for (let step = 1; step <= 3; step++) {
      await endUntil(running.take(step), running, (playing) => playing[0]);
      running.train(step);
    }
    running.stop.abort();
    await running.source.close();
    const { source } = await stream(directory, { steps: 4 });
    expect([1, 2, 3, 4].map((step) => source.needsPolicy(step))).toEqual([false, true, true, true]);
    const shorter = await stream(directory, { steps: 3 });
    expect([1, 2, 3].map((step) => shorter.source.needsPolicy(step))).toEqual([false, false, false]);
  });
});
