import { describe, expect, it, vi } from 'vitest';
import { Progress, progressBlock, progressLine } from '../../../src/cli/eval/progress.ts';
import { noPaint } from '../../../src/reports/text/paint.ts';
import { cellWidth } from '../../../src/reports/text/terminal-text.ts';
import { TerminalScreen } from '../terminal-screen.ts';

const progress = { done: 20, total: 50, errored: 1, rewardMean: 0.417, headlines: [{ name: 'em', mean: 0.25 }], active: 7 };

describe('progressLine', () => {
  it('says how far, how well and how long', () => {
    expect(progressLine(progress, { elapsedSeconds: 10, kept: 0 })).toBe(
      '20/50 rollouts, reward 0.417, em 0.250, 1 failed, 2.00/s, 15 s left, 7 in flight',
    );
  });

  it('counts only what this session played towards the speed', () => {
    expect(progressLine(progress, { elapsedSeconds: 10, kept: 10 })).toContain('1.00/s, 30 s left');
  });

  it('promises nothing before anything was played', () => {
    expect(
      progressLine(
        { done: 0, total: 50, errored: 0, rewardMean: null, headlines: [{ name: 'em', mean: null }], active: 0 },
        { elapsedSeconds: 3, kept: 0 },
      ),
    ).toBe('0/50 rollouts, reward –, 0 failed, 3.0 s so far, 0 in flight');
  });
});

describe('progressBlock', () => {
  it('fills the bar in proportion and stays inside the terminal', () => {
    const lines = progressBlock(progress, { elapsedSeconds: 10, kept: 0 }, { columns: 60, title: 'search-r1  model' });
    expect(lines).toEqual([
      'search-r1  model  ━━━━━━━━━━━━━━─────────────────────  20/50',
      'reward 0.417 · em 0.250 · 1 failed · 2.00/s · 15 s left · 7…',
    ]);
    for (const line of lines) expect(cellWidth(line)).toBeLessThanOrEqual(60);
  });

  it('shows no control character of a model name', () => {
    const [first] = progressBlock(progress, { elapsedSeconds: 1, kept: 0 }, { columns: 60, title: 'a\u001b[2Jb' });
    expect(first).toContain('a\\x1b[2Jb');
  });
});

describe('Progress', () => {
  const open = (plain: boolean) => {
    const screen = new TerminalScreen(60);
    const options = { plain, paint: noPaint, title: 'search-r1', verbose: false, redact: (text: string) => text.replaceAll('sk-1', '***') };
    return { screen, shown: new Progress({ stream: screen.asStream(), ...options }) };
  };
  const failed = { type: 'rollout', exampleId: 'r1', rolloutIndex: 0, reward: null, stopCondition: 'has_error' } as const;
  const started = { type: 'started', directory: 'd', kept: 0, redone: 0, progress } as const;

  it('takes its block away again, whatever was written meanwhile', () => {
    const { screen, shown } = open(false);
    shown.onEvent(started);
    shown.note('a line that stays');
    expect(screen.shown()).toEqual([
      'a line that stays',
      expect.stringMatching(/^search-r1  ━+─+  20\/50$/),
      expect.stringMatching(/^reward 0\.417 /),
    ]);
    shown.close();
    shown.close();
    expect(screen.shown()).toEqual(['a line that stays']);
  });

  it('says of a resumed run what it keeps and what it plays again', () => {
    const { screen, shown } = open(true);
    shown.onEvent({ ...started, kept: 24, redone: 8 });
    shown.close();
    expect(screen.text).toContain('kept 24 finished rollouts, playing 8 again that failed or whose group is not complete');
  });

  it('counts the time of the rollouts, without what comes before the first and after the last', () => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(1000);
    const { screen, shown } = open(true);
    clock.mockReturnValue(3000);
    const none = { ...progress, total: 1, done: 0 };
    shown.onEvent({ ...started, progress: none });
    clock.mockReturnValue(7000);
    shown.onEvent({ ...failed, error: null, reward: 1, progress: { ...none, done: 1 } });
    clock.mockReturnValue(9000);
    shown.close();
    clock.mockRestore();
    expect(screen.text).toContain('4.0 s so far');
  });

  it('writes whole lines and no escape sequence where there is no terminal', () => {
    const { screen, shown } = open(true);
    shown.onEvent(started);
    shown.onEvent({ ...failed, error: 'PolicyError: no\u001b[2J sk-1', progress });
    shown.onEvent({ ...failed, error: 'PolicyError: again', progress });
    const stack =
      'EnvironmentError: x\n    at play (src/play.ts:1:2)\ncaused by TypeError: x\n    at Desk.step (/home/desk.ts?namespace=a:29:18)\n    at b';
    shown.onEvent({ ...failed, error: 'EnvironmentError: x', stack, progress });
    const chosen = 'RewardError: no score\n    at unusable (/home/desk.ts:29:18)\n    at b';
    shown.onEvent({ ...failed, error: 'RewardError: no score', stack: chosen, progress });
    shown.close();
    expect(screen.text.split('\n')).toEqual([
      'rollout of row r1 failed: PolicyError: no\\x1b[2J *** (further failures of this kind are only counted)',
      'rollout of row r1 failed: EnvironmentError: x (at /home/desk.ts:29:18) (further failures of this kind are only counted)',
      'rollout of row r1 failed: RewardError: no score (further failures of this kind are only counted)',
      expect.stringMatching(/^20\/50 rollouts, reward 0\.417, em 0\.250, 1 failed/),
      '',
    ]);
  });
});
