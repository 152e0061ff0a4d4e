import { describe, expect, it } from 'vitest';
import { PublishError, TrainingError } from '../../../src/core/errors.ts';
import { newRunAfter } from '../../../src/trainer/config/training-schedule.ts';
import { Guards, type GuardsStart } from '../../../src/trainer/loop/guards.ts';
import type { SkipReason } from '../../../src/trainer/skip-reason.ts';
import type { LossTerm } from '../../../src/trainer/token-loss.ts';
import type { MetricsRow, TrainingEvent } from '../../../src/trainer/training-observer.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

const CONSTANT = { kind: 'constant', text: 'all constant' } as const;
const NOT_FINITE = { kind: 'not_finite', text: 'the gradient was not finite' } as const;
const ROLLOUTS = [trajectory('a/0'), trajectory('a/1')];

function guards(options: object, start: Partial<GuardsStart> = {}) {
  const events: Omit<TrainingEvent, 'step'>[] = [];
  const whole = { skipped: 0, isServed: true, ...start };
  return { events, guards: new Guards(someConfig({ guards: options }).guards, whole, (event) => events.push(event)) };
}

describe('Guards.step', () => {
  it('stops after the allowed number of steps in a row without an update, with the last reason', () => {
    const { guards: guard, events } = guards({ max_skipped_steps: 3 });
    expect([guard.step(CONSTANT), guard.step(CONSTANT)]).toEqual([null, null]);
    expect(guard.skipped).toBe(2);
    expect(guard.step(NOT_FINITE)).toBeInstanceOf(TrainingError);
    expect(events.map(({ kind, message, reason }) => [kind, message, reason])).toEqual([
      ['step_skipped', 'No update: all constant', 'constant'],
      ['step_skipped', 'No update: all constant', 'constant'],
      ['step_skipped', 'No update: the gradient was not finite', 'not_finite'],
    ]);
    expect(guard.step(CONSTANT)?.message).toMatch(/4 steps in a row.*max_skipped_steps.*the last: all constant\. Sample more rollouts/);
    expect(guard.step(NOT_FINITE)?.message).toMatch(/the last: the gradient was not finite\. Lower the learning rate/);
  });

  it('names the flag with which a run that was stopped takes further steps', () => {
    for (const [reason, flags] of [
      [CONSTANT, ['--set', 'guards.max_skipped_steps=6']],
      [NOT_FINITE, ['--lr', '1e-5']],
      [{ kind: 'failed', text: 'all failed' }, []],
    ] as const)
      expect(guards({ max_skipped_steps: 3 }, { skipped: 2 }).guards.step(reason, ['--lr', '1e-5'])?.resumeFlags).toEqual(flags);
  });

  it('offers a new run where equal rewards kept a run from its first update, and -R where some step had one', () => {
    const newRun = (reason: SkipReason) => newRunAfter(reason, someConfig({ rollouts: { rollouts_per_example: 4, max_tokens: 100 } }));
    const stopped = (reason: SkipReason, rows: readonly MetricsRow[] = []) =>
      guards({ max_skipped_steps: 3 }, { skipped: 2, newRun, rows }).guards.step(reason);
    expect(stopped(CONSTANT)).toMatchObject({ resumeFlags: null, newRun: { flags: ['-r', '8'] } });
    expect(stopped({ kind: 'cut', text: 'cut' })).toMatchObject({ resumeFlags: null, newRun: { flags: ['--max-tokens', '200'] } });
    expect(stopped({ kind: 'failed', text: 'all failed' })).toMatchObject({ resumeFlags: [], newRun: null });
    expect(stopped(CONSTANT, [{ kind: 'step', step: 1, values: { optimizer_steps: 1 } }])).toMatchObject({ newRun: null });
  });

  it('continues the count of a checkpoint, and starts from 0 after a step that was applied', () => {
    const { guards: guard } = guards({ max_skipped_steps: 3 }, { skipped: 2 });
    expect(guard.step(CONSTANT)).toBeInstanceOf(TrainingError);
    const { guards: other, events } = guards({ max_skipped_steps: 3 }, { skipped: 2 });
    other.step(null);
    expect([other.skipped, events]).toEqual([0, []]);
    other.step(CONSTANT);
    other.step(CONSTANT);
    expect(other.skipped).toBe(2);
  });
});

describe('Guards.publish', () => {
  it('stops at once where what serves is far behind: after supervised steps, or after a resume that has published nothing', () => {
    const failure = new PublishError('no room for adapters');
    const { guards: supervised } = guards({});
    for (let step = 0; step < 4; step++) supervised.step(null);
    expect(() => supervised.publish(failure)).toThrow(/^Stopped because the version that serves is too far behind what was trained: no room/);
    const { guards: resumed } = guards({}, { isServed: false });
    expect(() => resumed.publish(failure)).toThrow(/too far behind/);
    const { guards: published } = guards({}, { isServed: false });
    published.publish(null);
    for (let step = 0; step < 2; step++) {
      published.step(null);
      published.publish(failure);
    }
  });

  it('stops after three failures in a row, and forgets them after a success', () => {
    const { guards: guard, events } = guards({});
    const failure = new PublishError('no room for adapters');
    guard.publish(failure);
    guard.publish(failure);
    guard.publish(null);
    guard.publish(failure);
    guard.publish(failure);
    expect(() => guard.publish(failure)).toThrow(/3 failed publishes in a row.*no room for adapters/);
    expect(events).toEqual(Array.from({ length: 5 }, () => ({ kind: 'publish_failed', message: 'no room for adapters' })));
  });
});

describe('Guards.watch', () => {
  const BOUNDS = { min_entropy: 0.1, max_kl: 0.5, max_log_prob_difference: 0.01 };
  it.each<[string, Record<string, number | null>, RegExp]>([
    ['entropy below its bound', { entropy: 0.0999 }, /Entropy is 0\.0999 nats, below 0\.1 \(guards\.min_entropy\)/],
    ['the KL of the penalty', { kl: 0.6, approx_kl: 0 }, /KL is 0\.600 nats, above 0\.5 \(guards\.max_kl\)/],
    ['the KL of the update, without a penalty', { kl: null, approx_kl: 0.6 }, /guards\.max_kl/],
    ['the difference between server and trainer', { log_prob_difference_mean: 0.02 }, /guards\.max_log_prob_difference/],
  ])('warns of %s, and stops if an alarm is to stop the run', (_, values, message) => {
    const warned = guards({ ...BOUNDS, on_alarm: 'warn' });
    warned.guards.watch(values);
    expect(warned.events).toEqual([{ kind: 'alarm', message: expect.stringMatching(message) }]);
    const stopped = guards({ ...BOUNDS, on_alarm: 'stop' });
    expect(() => stopped.guards.watch(values)).toThrow(TrainingError);
    expect(() => stopped.guards.watch(values)).toThrow(message);
    expect(stopped.events.map(({ kind }) => kind)).toEqual(['alarm', 'alarm']);
  });

  it.each<[Record<string, number>, readonly string[]]>([
    [{ entropy: 0 }, ['--lr', '1e-5', '--set', 'guards.on_alarm=warn']],
    [{ kl: 9 }, ['--lr', '1e-5', '--set', 'guards.on_alarm=warn']],
    [{ log_prob_difference_mean: 9 }, []],
  ])('names the flags with which a run that %o stopped gets further; none where the servers are at fault', (values, flags) => {
    const { guards: guard } = guards({ ...BOUNDS, on_alarm: 'stop' });
    expect(() => guard.watch(values, ['--lr', '1e-5'])).toThrow(expect.objectContaining({ resumeFlags: flags }));
  });

  it('reports every alarm of a step', () => {
    const { guards: guard, events } = guards({ ...BOUNDS, on_alarm: 'stop' });
    expect(() => guard.watch({ entropy: 0, kl: 1, log_prob_difference_mean: 1 })).toThrow(/max_log_prob_difference/);
    expect(events).toHaveLength(3);
    const lowering = /lower the learning rate/;
    expect(events.filter(({ message }) => lowering.test(message))).toEqual([]);
    expect(events.filter(({ message }) => /Correct the difference between server and trainer first/.test(message))).toHaveLength(2);
    expect(() => guard.watch({ entropy: 0 })).toThrow(lowering);
  });

  it('is silent at a bound, without bounds, and about what was not measured', () => {
    const { guards: guard, events } = guards({ ...BOUNDS, on_alarm: 'stop' });
    guard.watch({ entropy: 0.1, kl: 0.5, log_prob_difference_mean: 0.01 });
    guard.watch({ entropy: null, kl: null, approx_kl: null, log_prob_difference_mean: null });
    guard.watch({});
    const standard = guards({ on_alarm: 'stop' });
    expect(() => standard.guards.watch({ entropy: 0, kl: 99, log_prob_difference_mean: 1.01 })).toThrow(
      /above 1 \(guards\.max_log_prob_difference\)/,
    );
    const unbounded = guards({ on_alarm: 'stop', max_log_prob_difference: null });
    unbounded.guards.watch({ entropy: 0, kl: 99, log_prob_difference_mean: 99 });
    expect([events, unbounded.events]).toEqual([[], []]);
  });
});

describe('Guards after an update that destroyed the policy', () => {
  const destroyed = {
    step: 4,
    trajectories: ROLLOUTS,
    values: { learning_rate: 50, update_log_prob_before: -0.46, update_log_prob_after: -18.55 },
    update: { applied: 1, brokenLosses: [], diverged: 0 },
  };
  const collapsed = (options: object) => guards(options, { skipped: 0, lowerRate: (step) => ['--lr', `0.00${step}`] });

  it('raise one alarm at once, with the figures and the flags of a new run', () => {
    const { guards: guard, events } = collapsed({});
    guard.notice(destroyed);
    guard.notice({ ...destroyed, step: 5 });
    expect(events).toEqual([
      {
        kind: 'alarm',
        message:
          'The policy has collapsed: the update of step 4, at the learning rate 50, lowered the mean log-prob of texts of that step from -0.46 to -18.6 nats per token. ' +
          'Start a new run with --lr 0.004: this one continues from the collapsed policy',
      },
    ]);
  });

  it('say so of steps with equal rewards, and advise a new run when they stop it', () => {
    const { guards: guard, events } = collapsed({ max_skipped_steps: 2 });
    guard.notice(destroyed);
    expect(guard.step(CONSTANT)).toBeNull();
    const stopped = guard.step(CONSTANT);
    expect(events.at(-1)).toMatchObject({
      reason: 'collapsed',
      message: 'No update: all constant, after the policy collapsed in the update of step 4',
    });
    expect(stopped?.message).toMatch(/from -0\.46 to -18\.6 nats per token\. Start a new run with --lr 0\.004/);
    expect(stopped?.message).not.toContain('Sample more rollouts');
    for (const kind of ['cut', 'window'] as const) guard.step({ kind, text: 'cut short (--max-tokens 128 doubles it)', plain: 'cut short' });
    const texts = events.slice(-2).map(({ message }) => message);
    expect(texts).toEqual(Array(2).fill('No update: cut short, after the policy collapsed in the update of step 4'));
    expect(stopped?.resumeFlags).toEqual([]);
  });

  it('know it from the rows of an earlier process', () => {
    const { guards: guard, events } = guards({}, { rows: [{ kind: 'step', step: 4, values: destroyed.values }] });
    guard.notice({ ...destroyed, step: 5 });
    guard.step(CONSTANT);
    expect(events.map(({ kind, reason }) => [kind, reason])).toEqual([['step_skipped', 'collapsed']]);
  });

  it('stop the run where an alarm does', () => {
    const { guards: guard } = collapsed({ on_alarm: 'stop' });
    guard.notice(destroyed);
    expect(() => guard.watch({})).toThrow(/^Stopped by an alarm: the policy has collapsed: .* Start a new run with --lr 0\.004/);
  });
});

describe('Guards.notice', () => {
  const update = { applied: 1, brokenLosses: [], diverged: 0 };
  const noticed = (notice: object, losses: readonly Pick<LossTerm, 'name' | 'roles'>[] = []) => {
    const { events, guards: guard } = guards({}, { losses });
    for (const each of [notice, notice]) guard.notice({ step: 1, trajectories: ROLLOUTS, values: {}, update, ...each });
    return events;
  };

  it('names the loss whose gradient left sequences out, in every such step', () => {
    const broken = { values: { sequences_dropped: 3 }, update: { applied: 1, brokenLosses: ['near'], diverged: 0 } };
    const message = '3 sequences were left out of the update (sequences_dropped): the gradient of the loss "near" was not finite';
    expect(noticed(broken)).toEqual([
      { kind: 'alarm', message },
      { kind: 'alarm', message },
    ]);
    expect(noticed({ values: { sequences_dropped: 1 } })[0]!.message).toBe(
      '1 sequence was left out of the update (sequences_dropped): their log-probs or gradient were not finite',
    );
    expect(noticed({ values: { sequences_dropped: 0 } })).toEqual([]);
    // The reason of a skipped step says so already.
    expect(noticed({ ...broken, update: { applied: 0, brokenLosses: ['near'], diverged: 0 } })).toEqual([]);
  });

  it('counts tokens that were left out, and optimiser steps that were skipped', () => {
    expect(noticed({ values: { tokens_dropped: 1 } })[0]!.message).toBe(
      '1 token was left out of the update (tokens_dropped): the old or the reference policy has no finite log-prob of it',
    );
    const skipped = noticed({ update: { applied: 3, brokenLosses: [], diverged: 2 } });
    expect(skipped[0]!.message).toMatch(/^2 of 5 optimiser steps were skipped, because the KL was above guards\.skip_kl/);
    expect(noticed({ update: { applied: 0, brokenLosses: [], diverged: 2 } })).toEqual([]);
  });

  it('asks once about a role of a loss that no rollout has', () => {
    const losses = [
      { name: 'near', roles: ['nobody'] },
      { name: 'far', roles: ['policy'] },
      { name: 'all', roles: null },
    ];
    expect(noticed({}, losses)).toEqual([
      {
        kind: 'alarm',
        message: 'losses.near applies to the role "nobody", but no rollout of this step has it (roles: policy). Check losses.near.roles',
      },
    ]);
    const branched = { trajectories: [{ ...ROLLOUTS[0]!, branches: [{ start: 0, end: 4, promptLength: 2, parent: null, role: 'nobody' }] }] };
    expect(noticed(branched, losses.slice(0, 1))).toEqual([]);
    // Supervised steps have no rollouts.
    expect(noticed({ trajectories: [{ ...ROLLOUTS[0]!, reward: null }] }, losses)).toEqual([]);
  });
});
