/** On-policy distillation by the command: what a run records of its teacher, and the same weights after a kill. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { finished } from '../../vllm/train-process.ts';
import { expectReplay, LaptopRuns, type Printed } from './laptop-runs.ts';

let runs: LaptopRuns;
beforeEach(() => {
  runs = new LaptopRuns();
});
afterEach(() => runs[Symbol.asyncDispose]());

const settings = (values: Readonly<Record<string, unknown>>) =>
  Object.entries(values).flatMap(([key, value]) => ['--set', `${key}=${String(value)}`]);

/** A rollout of each row: no reward is compared with another. */
const ALONE = { 'rollouts.rollouts_per_example': 1, 'rollouts.examples_per_step': 8 };

/** An adapter that two steps have moved. */
async function trainedAdapter(): Promise<string> {
  await using first = new LaptopRuns();
  const { adapter } = await finished<Printed>(first.beginInProcess(['--steps', '2', '--set', 'evaluation.every=0']));
  const kept = join(runs.folder.path, 'teacher');
  mkdirSync(kept);
  cpSync(adapter, kept, { recursive: true });
  return kept;
}

describe('vf-train with algorithm.teacher', { timeout: 180_000 }, () => {
  it('follows a teacher without any reward, and ends, after a kill, with the weights of an undisturbed run', async () => {
    const teacher = await trainedAdapter();
    const running = runs.begin(['--steps', '3', ...settings({ ...ALONE, 'algorithm.teacher.adapter': teacher, 'evaluation.every': 0 })]);
    const run = await runs.reach(running, (is) => is.steps().includes(1));
    expect(running.said()).toMatch(/step 1\/3 .* teacher kl \S+/);
    await running.kill();
    expect((await running.ended).code).toBeNull();
    const summary = await finished<Printed>(runs.resumeInProcess(run));
    expect(summary).toMatchObject({ reason: 'finished', version: 3 });
    const steps = run.rows('step');
    expect(steps.map((row) => row['teacher_scored'])).toEqual([1, 1, 1]);
    expect(steps.every((row) => Number.isFinite(row['teacher_kl']) && row['teacher_seconds']! > 0)).toBe(true);
    // The advantage of a token is the teacher's log-prob less the policy's.
    for (const row of steps) expect(row['advantage_mean']).toBeCloseTo(-row['teacher_kl']!, 5);
    await expectReplay(runs, run);
  });

  it('says who teaches before a run, and refuses a teacher that has nothing to teach', async () => {
    const said = await runs.beginInProcess(['--dry-run', ...settings({ 'algorithm.teacher.path': 'nano-base', 'algorithm.teacher.coefficient': 2 })])
      .ended;
    expect(said.stdout).toMatch(/teacher +\S*nano-base; 2 × reverse KL as advantage, without the reward/);
    const refused = await runs.beginInProcess(['--dry-run', ...settings({ 'algorithm.teacher.kind': '"self"' })]).ended;
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('algorithm.teacher.privileged must be set with algorithm.teacher.kind = "self"'),
    });
  });
});
