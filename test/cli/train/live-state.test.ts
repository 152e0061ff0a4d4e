import { describe, expect, it } from 'vitest';
import { liveState, secondsLeft, stepsDone, withEvent, withPhase, withStep } from '../../../src/cli/train/live-state.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';

const row = (step: number): MetricsRow => ({ kind: 'step', step, values: { reward_mean: step / 10 } });
const fresh = (rows: readonly MetricsRow[] = []) => liveState({ name: 'n', directory: 'd', steps: 10, rows });

describe('secondsLeft', () => {
  it('promises nothing before a step is done', () => {
    expect(secondsLeft(fresh(), 5)).toBeNull();
    expect(secondsLeft(withPhase(fresh(), { name: 'rollouts', step: 1 }, 30), 35)).toBeNull();
  });

  it('goes by the pace since the first batch, not by the start of the server', () => {
    let state = withPhase(fresh(), { name: 'rollouts', step: 1 }, 30);
    state = withStep(state, row(1), 34);
    state = withPhase(state, { name: 'rollouts', step: 2 }, 34);
    state = withStep(state, row(2), 38);
    // Eight steps of four seconds each, and one second is over.
    expect(secondsLeft(state, 39)).toBe(31);
    expect(secondsLeft(state, 1000)).toBe(0);
  });

  it('does not count the steps of earlier sessions into the pace', () => {
    const state = withStep(withPhase(fresh([row(1), row(2), row(3)]), { name: 'rollouts', step: 4 }, 10), row(4), 12);
    expect(secondsLeft(state, 12)).toBe(12);
  });
});

describe('withStep', () => {
  it('replaces a step that is done again', () => {
    const state = withStep(fresh([row(1), row(2), row(3)]), { ...row(2), values: { reward_mean: 0.9 } }, 1);
    expect(state.rows.map(({ step, values }) => [step, values['reward_mean']])).toEqual([
      [1, 0.1],
      [2, 0.9],
    ]);
    expect(stepsDone(state)).toBe(2);
  });

  it('keeps the newest row whole, and of the others only the reward that the curve shows', () => {
    const whole = (step: number): MetricsRow => ({ ...row(step), values: { reward_mean: step / 10, grad_norm: step, kl: 0 } });
    const state = withStep(withStep(fresh([whole(1), whole(2)]), whole(3), 1), whole(4), 2);
    expect(state.rows).toEqual([row(1), row(2), row(3), whole(4)]);
  });

  it('keeps as many ends of steps as the pace needs', () => {
    const state = Array.from({ length: 500 }, (_, i) => i + 1).reduce((before, step) => withStep(before, row(step), 3 * step), fresh());
    expect(state.marks).toHaveLength(21);
    expect(secondsLeft({ ...state, steps: 600 }, 1500)).toBe(300);
  });

  it('drops evaluations that a repeated step makes void', () => {
    const evaluated = (step: number): MetricsRow => ({ kind: 'evaluation', step, values: {} });
    const state = withStep(fresh([evaluated(0), row(1), row(2), evaluated(2)]), row(2), 1);
    expect(state.evaluations.map(({ step }) => step)).toEqual([0]);
  });
});

describe('withPhase', () => {
  it('forgets the rollouts of a batch that is complete', () => {
    const after = (done: number) =>
      withPhase({ ...fresh(), rollouts: { done, total: 4, failed: 0 } }, { name: 'forward', step: 1 }, 1).rollouts?.done;
    expect([after(3), after(4)]).toEqual([3, undefined]);
  });
});

describe('withEvent', () => {
  it('keeps what deserves attention', () => {
    let state = withEvent(fresh(), { step: 1, kind: 'policy_recovered', message: 'back' });
    state = withEvent(state, { step: 2, kind: 'alarm', message: 'entropy 0.01' });
    expect(state.warnings).toEqual({ count: 1, last: expect.objectContaining({ message: 'entropy 0.01' }) });
  });
});
