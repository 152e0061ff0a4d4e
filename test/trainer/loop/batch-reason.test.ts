import { describe, expect, it } from 'vitest';
import { batchReason } from '../../../src/trainer/loop/batch-reason.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { trajectory } from '../some-trajectories.ts';

const CONSTANT = { kind: 'constant', text: 'no group has two finished rollouts with different rewards' } as const;
const failed = (id: string, type = 'PolicyError'): Trajectory =>
  trajectory(id, { reward: null, error: { type, message: '', retryable: false, source: 'policy' } });
const unplayed = (id: string) => failed(id, 'UnplayedError');
const paid = (id: string, reward: number) => trajectory(id, { reward });

describe('batchReason', () => {
  it.each<[string, readonly Trajectory[], string, string]>([
    ['equal rewards', [paid('a/0', 1), paid('a/1', 1)], 'constant', CONSTANT.text],
    ['different rewards in different groups', [paid('a/0', 1), paid('a/1', 1), paid('b/0', 0), paid('b/1', 0)], 'constant', CONSTANT.text],
    ['failures alone', [failed('a/0'), failed('a/1')], 'failed', 'no rollout finished: 2 of 2 failed'],
    ['groups of one', [failed('a/0'), paid('a/1', 1)], 'failed', 'no group has two finished rollouts: 1 of 2 failed'],
    [
      'prompts that do not fit',
      [unplayed('a/0'), unplayed('a/1'), failed('b/0'), paid('b/1', 1)],
      'unplayed',
      'no group has two finished rollouts: 1 of 4 failed, 2 of 4 could not be played',
    ],
    ['rewards beyond their variance', [paid('a/0', 1e299), paid('a/1', 3e299)], 'overflow', 'the rewards reach 3.00e+299, and their variance'],
    ['huge but equal rewards', [paid('a/0', 1e299), paid('a/1', 1e299)], 'constant', CONSTANT.text],
  ])('is that of the rewards where the credit found nothing: %s', (_, rollouts, kind, text) => {
    expect(batchReason(CONSTANT, rollouts, 'group')).toEqual({ kind, text: expect.stringContaining(text) });
  });

  it('compares the whole batch where the credit does', () => {
    expect(batchReason(CONSTANT, [paid('a/0', 1), paid('b/0', 1)], 'batch')).toBe(CONSTANT);
    expect(batchReason(CONSTANT, [paid('a/0', 1e299), paid('b/0', 3e299)], 'batch').kind).toBe('overflow');
    expect(batchReason(CONSTANT, [paid('a/0', 0)], 'none')).toBe(CONSTANT);
  });

  it('keeps a reason that is not about rewards, and that of supervised rows', () => {
    const diverged = { kind: 'diverged', text: 'too far' } as const;
    expect(batchReason(diverged, [failed('a/0')], 'group')).toBe(diverged);
    expect(batchReason(CONSTANT, [trajectory('a/0', { reward: null })], 'group')).toBe(CONSTANT);
  });
});
