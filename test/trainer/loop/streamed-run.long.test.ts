/**
 * A run with max_staleness of 2 whose process is killed; streamed-run.test.ts interrupts it in every phase.
 * @module-tag long
 */
import { once } from 'node:events';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { finalAdapter, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { finishSmall, startSmall, untilPhases } from '../small-process.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-streamed-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const STREAMED = {
  rollouts: { examples_per_step: 3, rollouts_per_example: 4, max_concurrent: 8, max_staleness: 2 },
  checkpoint: { every: 2, keep: 2, keep_rollouts: true },
};
const run = ({ config = {}, ...options }: Partial<SmallRunOptions> = {}, at = path) =>
  trainSmall(at, { backend: async () => new UnigramBackend(), ...options, config: { ...STREAMED, ...config } });

/** Repeats the run at `path` from its recorded rollouts, without a policy, and expects the same weights and metrics. */
async function expectRepeatable(outcome: Awaited<ReturnType<typeof run>>, config: Record<string, unknown> = {}): Promise<void> {
  const again = await newRun(await mkdtemp(join(parent, 'again-')));
  for (const folder of ['rollouts', 'evaluations']) await cp(join(path, folder), join(again, folder), { recursive: true }).catch(() => {});
  const repeated = await run({ config, onTurn: () => expect.unreachable('Expected no generation') }, again);
  expect(repeated.reason).toBe('finished');
  expect(await finalAdapter(repeated, 'unigram.json')).toEqual(await finalAdapter(outcome, 'unigram.json'));
  expect(await rowsOf(again)).toEqual(await rowsOf(path));
}

describe('a run that streams its groups', () => {
  it('ends with the weights of its recorded batches after it was killed at random moments', { timeout: 120_000 }, async () => {
    const random = Random.fromSeed(6);
    let kills = 0;
    for (let round = 0; round < 5; round++) {
      const child = startSmall(path, { config: STREAMED, slowMs: 4 });
      await untilPhases(child, 1 + random.integer(25));
      if (child.exitCode !== null) continue;
      child.kill('SIGKILL');
      kills++;
      await once(child, 'close');
    }
    expect(kills).toBeGreaterThan(1);
    const outcome = await finishSmall(path, { config: STREAMED });
    expect(outcome).toMatchObject({ reason: 'finished', step: 6 });
    expect((await rowsOf(path)).filter(({ kind }) => kind === 'step').map(({ rollouts }) => rollouts)).toEqual(Array(6).fill(12));
    await expectRepeatable(outcome);
  });
});
