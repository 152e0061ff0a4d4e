import { describe, expect, it } from 'vitest';
import { progressBlock, progressLine } from '../../../src/cli/eval/progress.ts';
import { cellWidth } from '../../../src/cli/terminal-text.ts';

const progress = { done: 20, total: 50, errored: 1, rewardMean: 0.417 };

describe('progressLine', () => {
  it('says how far, how well and how long', () => {
    expect(progressLine(progress, { elapsedSeconds: 10, kept: 0 })).toBe('20/50 rollouts, reward 0.417, 1 failed, 2.00/s, 15 s left');
  });

  it('counts only what this session played towards the speed', () => {
    expect(progressLine(progress, { elapsedSeconds: 10, kept: 10 })).toContain('1.00/s, 30 s left');
  });

  it('promises nothing before anything was played', () => {
    expect(progressLine({ done: 0, total: 50, errored: 0, rewardMean: null }, { elapsedSeconds: 3, kept: 0 })).toBe(
      '0/50 rollouts, reward –, 0 failed, 3.0 s so far',
    );
  });
});

describe('progressBlock', () => {
  it('fills the bar in proportion and stays inside the terminal', () => {
    const lines = progressBlock(progress, { elapsedSeconds: 10, kept: 0 }, { columns: 60, title: 'search-r1  model' });
    expect(lines).toEqual(['search-r1  model  ━━━━━━━━━━━━━━─────────────────────  20/50', 'reward 0.417 · 1 failed · 2.00/s · 15 s left']);
    for (const line of lines) expect(cellWidth(line)).toBeLessThanOrEqual(60);
  });

  it('shows no control character of a model name', () => {
    const [first] = progressBlock(progress, { elapsedSeconds: 1, kept: 0 }, { columns: 60, title: 'a\u001b[2Jb' });
    expect(first).toContain('a\\x1b[2Jb');
  });
});
