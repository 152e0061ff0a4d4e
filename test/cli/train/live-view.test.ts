import { describe, expect, it } from 'vitest';
import { PolicyError } from '../../../src/core/errors.ts';
import { rolloutError } from '../../../src/rollouts/rollout.ts';
import { noPaint } from '../../../src/reports/text/paint.ts';
import { LiveView } from '../../../src/cli/train/live-view.ts';
import { TerminalScreen } from '../terminal-screen.ts';
import { trainingRows } from './training-rows.ts';

const open = (plain: boolean, rows = trainingRows({ steps: 0 }), verbose = false) => {
  const screen = new TerminalScreen(80);
  const redact = (text: string) => text.replaceAll('sk-1', '***');
  const run = { name: 'nano', directory: 'outputs/nano', steps: 3, rows };
  return { screen, view: new LiveView({ stream: screen.asStream(), plain, paint: noPaint, verbose, redact, ...run }) };
};
const play = (view: LiveView) => {
  view.onEvent({ step: 0, kind: 'started', message: 'nano, 3 steps' });
  for (const row of trainingRows({ steps: 3 })) {
    view.onPhase('rollouts', row.step);
    view.onRollouts({ done: 64, total: 64, failed: 1 });
    if (row.kind === 'step') view.onStep(row);
    else view.onEvaluation(row);
  }
  view.onEvent({ step: 2, kind: 'policy_lost', message: 'no answer\u001b[2J with sk-1\nat all' });
  view.onPhase('publish', 3);
};

describe('LiveView', () => {
  it('writes a line for each step, evaluation and event where there is no terminal, and no escape sequence', () => {
    const { screen, view } = open(true);
    play(view);
    view.close();
    expect(screen.text.split('\n')).toEqual([
      'step 0/3  started: nano, 3 steps',
      'step 0/3  held-out reward 0.214 (0.162 to 0.265)  240 rollouts  2 cut short  5.1 s',
      'step 1/3  reward 0.294  entropy 0.38  |Δlogp| 2.7e-6  kl 0.0034  1 cut short  3.8 s (sample 2.7, train 0.9, publish 0.1)',
      expect.stringMatching(/^step 2\/3 {2}reward /),
      expect.stringMatching(/^step 3\/3 {2}reward /),
      'step 2/3  policy lost: no answer\\x1b[2J with ***\\nat all',
      '',
    ]);
  });

  it.each([
    ['of [sft]', { demonstrations: 4, 'loss/sft/nll': 0.25, loss: 0.3 }, 'nll 0.25'],
    ['of a configured loss with this metric', { demonstrations: 4, 'loss/own/nll': 0.25, loss: 0.3 }, 'nll 0.25'],
    ['of a module without it', { demonstrations: 4, 'loss/own/loss': 0.3, loss: 0.3 }, 'loss 0.30'],
    ['of a skipped step', { demonstrations: 4, loss: null, optimizer_steps: 0 }, 'loss –  no update'],
    ['of a module in addition to rollouts', { demonstrations: 4, 'loss/own/loss': 0.3, loss: 0.8, reward_mean: 0.5 }, 'reward 0.500'],
  ])('writes the loss of supervised rows, and no reward that nothing has: %s', (_, values, text) => {
    const { screen, view } = open(true);
    view.onStep({ kind: 'step', step: 1, values: { reward_mean: null, ...values } });
    view.close();
    expect(screen.text.split('\n')[0]).toBe(`step 1/3  ${text}`);
  });

  it('writes the reward of each task where rows have tasks', () => {
    const { screen, view } = open(true);
    const tasks = { 'reward/search': 0.25, 'reward/su\u001b[2Jms': null };
    view.onStep({ kind: 'step', step: 1, values: { reward_mean: 0.5, ...tasks } });
    view.onEvaluation({ kind: 'evaluation', step: 1, values: { reward_mean: 0.5, rollouts: 8, ...tasks } });
    // The role of an agent whose branches have no rewards of their own.
    view.onEvaluation({ kind: 'evaluation', step: 2, values: { reward_mean: 0.5, rollouts: 8, 'reward/guard': 0.5 } });
    view.close();
    expect(screen.text.split('\n').slice(0, 3)).toEqual([
      'step 1/3  reward 0.500  search 0.250, su\\x1b[2Jms –',
      'step 1/3  held-out reward 0.500  search 0.250, su\\x1b[2Jms –  8 rollouts',
      'step 2/3  held-out reward 0.500  8 rollouts',
    ]);
  });

  it.each([true, false])('shows failed rollouts and what stopped a run with their stacks, if that is wanted: %s', (verbose) => {
    const { screen, view } = open(true, trainingRows({ steps: 0 }), verbose);
    const error = rolloutError(new PolicyError('no answer with sk-1', { cause: new Error('reset\u001b[2J') }), 'generation');
    view.onFailedRollout({ step: 1, rolloutId: 'a/0', error });
    view.onEvent({ step: 2, kind: 'stopped', message: 'it diverged', stack: 'TrainingError: it diverged\n    at train (a.ts:1)' });
    view.close();
    expect(screen.text).toContain('stopped: it diverged\n');
    view.onEvent({ step: 2, kind: 'stopped', message: 'Stopped at step 2: no answer' });
    expect(screen.text).toMatch(/\d {2}Stopped at step 2: no answer\n/);
    for (const hidden of ['sk-1', '\u001b[2J']) expect(screen.text).not.toContain(hidden);
    const shown = [
      /^rollout a\/0 failed: PolicyError: no answer with \*\*\*$/m,
      /^caused by Error: reset/m,
      /^ +at .*live-view\.test/m,
      /^ +at train \(a\.ts:1\)$/m,
    ];
    for (const line of shown) expect(line.test(screen.text)).toBe(verbose);
  });

  it('calls the rows of evaluations held out only where the run does not train on them', () => {
    const lines = open(true);
    lines.view.nameEvaluations('evaluation');
    play(lines.view);
    lines.view.close();
    expect(lines.screen.text).toContain('step 0/3  evaluation reward 0.214');
    const block = open(false);
    block.view.nameEvaluations('evaluation');
    play(block.view);
    block.view.note('so that the block is drawn');
    expect(block.screen.shown()).toContainEqual(expect.stringMatching(/^evaluation 0\.214 at 0/));
    expect(block.screen.shown().join()).not.toContain('held-out');
    block.view.close();
    expect(lines.screen.text).not.toContain('held-out');
  });

  it('keeps one block on a terminal, under the events, and takes it away', () => {
    const { screen, view } = open(false);
    play(view);
    view.note('a line that stays');
    const shown = screen.shown();
    expect(shown.slice(0, 3)).toEqual([
      'step 0/3  started: nano, 3 steps',
      'step 2/3  policy lost: no answer\\x1b[2J with ***\\nat all',
      'a line that stays',
    ]);
    expect(shown.filter((line) => line.startsWith('nano  '))).toEqual([expect.stringMatching(/step 3\/3$/)]);
    expect(shown).toContain('now        publishing the new weights');
    expect(shown.length).toBeLessThanOrEqual(3 + 12);
    view.close();
    expect(screen.shown()).toHaveLength(3);
  });

  it('breaks what stays on a narrow terminal at spaces, and no path', () => {
    const { screen, view } = open(false);
    const path = `outputs/${'long-'.repeat(12)}end`;
    view.note(`with       the engine, which samples and trains in this process: no server, nothing else, in ${path} too`, 'dim');
    view.close();
    expect(screen.shown()).toEqual([
      'with       the engine, which samples and trains in this process: no server,',
      '           nothing else, in',
      `           ${path}`,
      '           too',
    ]);
  });

  it('continues from the rows of earlier sessions', () => {
    const { screen, view } = open(false, trainingRows({ steps: 2 }));
    expect(screen.shown()[0]).toMatch(/step 2\/3$/);
    view.close();
  });
});
