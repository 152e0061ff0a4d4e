import { stripVTControlCharacters, styleText } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { Paint } from '../../../src/reports/text/paint.ts';
import { cellWidth } from '../../../src/reports/text/terminal-text.ts';
import { liveBlockLines } from '../../../src/cli/train/live-block-lines.ts';
import { type LiveState, liveState, withEvaluation, withEvent, withPhase, withStep } from '../../../src/cli/train/live-state.ts';
import { stepLine } from '../../../src/cli/train/plain-lines.ts';
import { trainingRows } from './training-rows.ts';

/** In the middle of step 18 of 30; steps took four seconds each. */
function midway(): LiveState {
  let state = liveState({ name: 'search-r1-nano', directory: 'outputs/search-r1-nano', steps: 30, rows: [] });
  state = withPhase(state, { name: 'rollouts', step: 1 }, 3);
  for (const row of trainingRows({ steps: 17 })) state = row.kind === 'step' ? withStep(state, row, 3 + row.step * 4) : withEvaluation(state, row);
  state = withPhase(state, { name: 'rollouts', step: 18 }, 72);
  state = withEvent(state, { step: 9, kind: 'step_skipped', message: 'the gradient of 3 tokens was not finite\u001b[2J' });
  return { ...state, rollouts: { done: 41, total: 64, failed: 2 } };
}

describe('liveBlockLines', () => {
  it.each([99, 79, 44])('says where a run stands in %i columns', async (columns) => {
    const lines = liveBlockLines(midway(), { columns, seconds: 73 });
    await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(`../../golden/cli/train/live-${columns}.txt`);
  });

  it('stays within its columns and twelve lines at any width, with colours too', () => {
    const paint: Paint = (style, text) => styleText(style, text, { validateStream: false });
    for (let columns = 39; columns < 100; columns++) {
      const lines = liveBlockLines(midway(), { columns, seconds: 73, paint });
      expect(lines.length).toBeLessThanOrEqual(12);
      for (const line of lines) expect(cellWidth(stripVTControlCharacters(line))).toBeLessThanOrEqual(columns);
    }
  });

  it('says only what is known at the start', () => {
    const state = liveState({ name: 'a\u001b[2Jb', directory: 'd', steps: 30, rows: [] });
    expect(liveBlockLines(state, { columns: 50, seconds: 0 })).toEqual([
      `a\\x1b[2Jb  ${'─'.repeat(28)}  step 0/30`,
      '0.0 s so far · d',
      'now        starting',
    ]);
  });

  it('distinguishes rollouts of the next batch from what is done meanwhile', () => {
    const now = (state: LiveState) => liveBlockLines(state, { columns: 79, seconds: 73 })[2];
    const training = withPhase(midway(), { name: 'backward', step: 18 }, 73);
    expect(now(training)).toBe('now        backward pass, next rollouts  41/64, 2 failed');
    expect(now({ ...training, rollouts: null })).toBe('now        backward pass');
  });

  it('has a line for a step in which nothing was measured', () => {
    const state = withStep(liveState({ name: 'n', directory: 'd', steps: 2, rows: [] }), { kind: 'step', step: 1, values: { reward_mean: null } }, 1);
    expect(liveBlockLines(state, { columns: 60, seconds: 2 }).slice(2)).toEqual(['now        starting']);
  });

  it('shows the first metrics of a source, with a dash for one that was not measured', () => {
    const values = {
      reward_mean: 0.5,
      'source/a\u001b[2J': 1,
      'source/b': null,
      'source/c': 0.25,
      'source/d': 3,
      'source/e': 4,
      'source/f': 5,
      'source/g': 6,
    };
    const row = { kind: 'step', step: 1, values } as const;
    const state = withStep(liveState({ name: 'n', directory: 'd', steps: 2, rows: [] }), row, 1);
    const [line] = liveBlockLines(state, { columns: 79, seconds: 2 }).filter((each) => each.startsWith('source'));
    expect(line).toBe('source     a\\x1b[2J 1.00 · c 0.25 · d 3.00 · e 4.00 · f 5.00');
    expect(stepLine(row, 2)).toContain('  a\\x1b[2J 1.00  c 0.25  d 3.00  e 4.00  f 5.00');
  });
});
