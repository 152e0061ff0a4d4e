import { describe, expect, it } from 'vitest';
import { batchReason } from '../../../src/trainer/loop/batch-reason.ts';
import { newRunAfter } from '../../../src/trainer/config/training-schedule.ts';
import { SKIP_REMEDIES } from '../../../src/trainer/skip-reason.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { someConfig } from '../some-config.ts';
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
    ['nothing from the source', [], 'empty', 'the source returned nothing to train on'],
    ['huge but equal rewards', [paid('a/0', 1e299), paid('a/1', 1e299)], 'constant', CONSTANT.text],
  ])('is that of the rewards where the credit found nothing: %s', (_, rollouts, kind, text) => {
    expect(batchReason(CONSTANT, rollouts, { scope: 'group' })).toEqual({ kind, text: expect.stringContaining(text) });
  });

  it('is the rewards where they are too large for a gradient in single precision, and else what the gradient lacked', () => {
    const reason = { kind: 'not_finite', text: 'the gradient of the loss "policy" was not finite' } as const;
    expect(batchReason(reason, [paid('a/0', -1e300), paid('a/1', 1)], { scope: 'group' })).toEqual({
      kind: 'overflow',
      text: 'the rewards reach 1.00e+300, and the gradient that they give is not finite',
    });
    expect(batchReason(reason, [paid('a/0', 1e30), paid('a/1', 1)], { scope: 'group' })).toBe(reason);
  });

  it('is the length limit where it cut short at least half of the rollouts, with the flag that doubles it', () => {
    const cut = (id: string) => trajectory(id, { reward: 0, isTruncated: true });
    const all = [cut('a/0'), cut('a/1'), cut('b/0'), paid('b/1', 0)];
    expect(batchReason(CONSTANT, all, { scope: 'group', maxTokens: 64 })).toEqual({
      kind: 'cut',
      text: '3 of 4 rollouts were cut short by a length limit (rollouts.max_tokens is 64; --max-tokens 128 doubles it), and rewards within each group are equal',
      plain: '3 of 4 rollouts were cut short by a length limit, and rewards within each group are equal',
    });
    expect(batchReason(CONSTANT, all, { scope: 'group' }).text).toBe(
      '3 of 4 rollouts were cut short by a length limit, and rewards within each group are equal',
    );
    expect(batchReason(CONSTANT, [cut('a/0'), paid('a/1', 0), paid('a/2', 0)], { scope: 'group', maxTokens: 64 })).toBe(CONSTANT);
  });

  it('is the window where a quarter of the rollouts had no room for a further turn, which more new tokens would not mend', () => {
    const crowded = (id: string) => trajectory(id, { reward: 0, isTruncated: true, stop: 'prompt_too_long' });
    const all = [crowded('a/0'), paid('a/1', 0), paid('b/0', 0), paid('b/1', 0)];
    const reason = batchReason(CONSTANT, all, { scope: 'group', maxTokens: 64 });
    expect([reason.kind, reason.text]).toEqual([
      'window',
      '1 of 4 rollouts were cut short by a length limit (prompt_too_long 1: no room was left for a further turn), and rewards within each group are equal',
    ]);
    expect(SKIP_REMEDIES[reason.kind]).toMatch(/^Give the policy a larger window \(--max-model-len/);
    expect(newRunAfter(reason, someConfig({ rollouts: { max_tokens: 64 } }))).toBeNull();
  });

  it('begins with the reason of a credit of the user, whatever the rewards show', () => {
    const own = { kind: 'constant', text: 'no page was read', isOwn: true } as const;
    expect(batchReason(own, [paid('a/0', 0), paid('a/1', 1)], { scope: 'group', use: './mine.ts' })).toMatchObject({
      kind: 'credit',
      text: 'no page was read; the credit ./mine.ts gave every token the advantage 0, or left it out, although rewards differ',
    });
    expect(batchReason(own, [paid('a/0', 1), paid('a/1', 1)], { scope: 'group', use: './mine.ts' })).toBe(own);
  });

  it('is the rewards where their differences are too small for a gradient', () => {
    const reason = { kind: 'no_gradient', text: 'the gradient is 0' } as const;
    expect(batchReason(reason, [paid('a/0', 0), paid('a/1', 1e-300)], { scope: 'group' })).toEqual({
      kind: 'underflow',
      text: 'the rewards differ by at most 1.00e-300, which is too little to give a gradient',
    });
    for (const rewards of [
      [0, 1],
      [1, 1],
    ])
      expect(batchReason(reason, [paid('a/0', rewards[0]!), paid('a/1', rewards[1]!)], { scope: 'group' })).toBe(reason);
  });

  it('is not the length limit where texts that were cut short were paid as much as whole ones', () => {
    const cut = (id: string) => trajectory(id, { reward: 1, isTruncated: true });
    expect(batchReason(CONSTANT, [cut('a/0'), cut('a/1'), paid('a/2', 1)], { scope: 'group' })).toEqual({
      kind: 'constant',
      text: 'every reward was 1, of rollouts that were cut short as of the others',
    });
    expect(batchReason(CONSTANT, [cut('a/0'), cut('a/1')], { scope: 'group' }).kind).toBe('cut');
  });

  it('is the credit that gives 0 to different rewards, by its name, or finds no turn with a reward, whatever was cut short', () => {
    const rollouts = [trajectory('a/0', { reward: 0, isTruncated: true }), paid('a/1', 1)];
    expect(batchReason(CONSTANT, rollouts, { scope: 'group', use: './mine.ts' })).toEqual({
      kind: 'credit',
      text: 'the credit ./mine.ts gave every token the advantage 0, or left it out, although rewards differ',
    });
    const cut = ['a/0', 'a/1'].map((id) => trajectory(id, { reward: 0, isTruncated: true }));
    expect(batchReason(CONSTANT, cut, { scope: 'group', use: 'turns' })).toEqual({
      kind: 'constant',
      text: 'no turn had a reward, and the rewards within each group are equal',
    });
    expect(batchReason(CONSTANT, rollouts, { scope: 'group' })).toBe(CONSTANT);
  });

  it('compares the whole batch where the credit does', () => {
    expect(batchReason(CONSTANT, [paid('a/0', 1), paid('b/0', 1)], { scope: 'batch' })).toBe(CONSTANT);
    expect(batchReason(CONSTANT, [paid('a/0', 1e299), paid('b/0', 3e299)], { scope: 'batch' }).kind).toBe('overflow');
    expect(batchReason(CONSTANT, [paid('a/0', 0)], { scope: 'none' })).toBe(CONSTANT);
  });

  it('keeps a reason that is not about rewards, and that of supervised rows', () => {
    const diverged = { kind: 'diverged', text: 'too far' } as const;
    expect(batchReason(diverged, [failed('a/0')], { scope: 'group' })).toBe(diverged);
    expect(batchReason(CONSTANT, [trajectory('a/0', { reward: null })], { scope: 'group' })).toBe(CONSTANT);
  });
});
