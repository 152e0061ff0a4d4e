/**
 * `vf-train --preset laptop` whose engine loses threads, more often than embedded-run.test.ts shows.
 * @module-tag long
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { finished } from '../../vllm/train-process.ts';
import { expectReplay, expectWhole, LaptopRuns, MORTAL, type Printed } from './laptop-runs.ts';

let runs: LaptopRuns;
beforeEach(() => {
  runs = new LaptopRuns();
});
afterEach(() => runs[Symbol.asyncDispose]());

describe('vf-train --preset laptop', () => {
  it('continues by itself after threads of the engine died twice, to the weights of a run in which none did', async () => {
    const running = runs.begin(['--steps', '6'], MORTAL);
    const run = await runs.reach(running, (is) => is.rollouts(2).length > 5);
    running.child.kill('SIGUSR2');
    await runs.reach(running, (is) => is.rollouts(5).length > 5);
    running.child.kill('SIGUSR2');
    await finished<Printed>(running);
    expectWhole(run, 6);
    expect(running.said()).toMatch(/restarting the embedded engine \(2 of 5\)/);
    expect(run.events().map(({ kind }) => kind)).toContain('backend_lost');
    await expectReplay(runs, run);
  });

  it('gives up, resumable, when threads die more often than policy.embedded.max_restarts allows', async () => {
    const running = runs.begin(['--steps', '4', '--set', 'policy.embedded.max_restarts=0'], MORTAL);
    const run = await runs.reach(running, (is) => is.steps().includes(2));
    running.child.kill('SIGUSR2');
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/after 0 of 0 restarts/);
    expect(stderr).toContain('continue this run with node ');
    await finished<Printed>(runs.resume(run));
    expectWhole(run, 4);
    await expectReplay(runs, run);
  });
});
