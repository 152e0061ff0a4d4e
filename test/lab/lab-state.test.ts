import { describe, expect, it } from 'vitest';
import { after, IDLE, isBusy, type LabState, secondsToGoal } from '../../web/lab/run/lab-state.ts';
import type { FromLab } from '../../web/lab/lab-messages.ts';

const evaluation = (step: number, mean: number): FromLab => ({ kind: 'evaluation', step, values: { reward_mean: mean }, transcripts: [] });
const OPENED: FromLab = { kind: 'opened', engine: 'an engine', threads: 2, steps: 15, heldOut: 240 };

/** A run that begins at 1000 ms and hears a message each second. */
function run(messages: readonly FromLab[]): LabState {
  const begun = after(IDLE, { kind: 'begin', atMs: 1000 });
  return messages.reduce((state, message, i) => after(state, { kind: 'heard', atMs: 2000 + 1000 * i, message }), begun);
}

describe('after', () => {
  it('counts the seconds from the press to the first evaluation at the goal', () => {
    expect(secondsToGoal(run([OPENED, evaluation(0, 0.2), evaluation(3, 0.89)]))).toBe(null);
    expect(secondsToGoal(run([OPENED, evaluation(0, 0.2), evaluation(3, 0.9), evaluation(6, 0.95)]))).toBe(3);
  });

  it('stays in "stopping" until the run has ended, whatever it hears', () => {
    const stopping = after(run([OPENED]), { kind: 'halt' });
    const heard = after(stopping, { kind: 'heard', atMs: 5000, message: evaluation(1, 0.3) });
    expect([heard.status, isBusy(heard)]).toEqual(['stopping', true]);
    const ended = after(heard, { kind: 'heard', atMs: 6000, message: { kind: 'ended', how: 'stopped' } });
    expect([ended.status, isBusy(ended), ended.endedAtMs]).toEqual(['stopped', false, 6000]);
  });

  it('forgets the run before when another begins, and stops nothing that does not run', () => {
    const failed = run([OPENED, evaluation(0, 0.2), { kind: 'failed', message: 'no memory' }]);
    expect([failed.status, failed.problem]).toEqual(['failed', 'no memory']);
    expect(after(failed, { kind: 'halt' })).toBe(failed);
    expect(after(failed, { kind: 'begin', atMs: 9000 })).toMatchObject({ status: 'starting', evaluations: [], problem: null, startedAtMs: 9000 });
  });
});
