import { stripVTControlCharacters, styleText } from 'node:util';
import { describe, expect, it } from 'vitest';
import { noPaint, type Paint } from '../../../src/reports/text/paint.ts';
import { cellWidth } from '../../../src/reports/text/terminal-text.ts';
import { renderTrainingSummary } from '../../../src/reports/training/render-training-summary.ts';
import { trainingSummary } from '../../../src/reports/training/training-summary.ts';
import type { TrainingSummary } from '../../../src/schemas/training-summary.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';
import { trainingRecord } from '../../cli/train/training-record.ts';
import { supervisedRows, trainingRows } from '../../cli/train/training-rows.ts';

const next = [{ why: 'continue this run', command: 'npx vf-train -R outputs/train/nano--0a1b2c3d' }];

const BEST = { metric: 'validation_nll', step: 5, version: 5, value: 0.4 } as const;

describe('renderTrainingSummary', () => {
  it('says what came of a run, what it took and where things are', async () => {
    const text = renderTrainingSummary(trainingSummary(trainingRecord()), { columns: 80, paint: noPaint, next: [] });
    await expect(text).toMatchFileSnapshot('../../golden/cli/train/summary.txt');
  });

  it('says why a run stopped, and how to continue', async () => {
    const outcome = {
      reason: 'stopped',
      message: '10 steps in a row without an update: the gradient was not finite\u001b[2J',
      step: 12,
      resumable: true,
    } as const;
    const summary = trainingSummary(trainingRecord({ rows: trainingRows({ steps: 12 }), outcome }));
    await expect(renderTrainingSummary(summary, { columns: 80, paint: noPaint, next })).toMatchFileSnapshot(
      '../../golden/cli/train/summary-stopped.txt',
    );
  });

  it('does not call a model trained that took no step', () => {
    const outcome = { reason: 'stopped', message: 'no rollout could be played', step: 0, version: 0, resumable: true } as const;
    const text = renderTrainingSummary(trainingSummary(trainingRecord({ rows: [], outcome })), { columns: 80, paint: noPaint, next });
    expect(text).toMatch(/^trains +\S+ on \S+: no step has been taken$/m);
    expect(text).not.toMatch(/^trained|now version/m);
  });

  it('shows the losses of a supervised run and the best adapter, and nothing of rollouts', async () => {
    const rows = supervisedRows();
    const record = trainingRecord({ rows, outcome: { step: 12, version: 0, plots: [] } });
    const summary = trainingSummary({ ...record, best: { ...BEST, adapter: `${record.outcome.directory}/best/adapter` } });
    const losses = rows.flatMap(({ kind, step, values }) => (kind === 'step' ? [{ step, value: values['loss/sft/nll']! }] : []));
    const text = renderTrainingSummary(summary, { columns: 80, paint: noPaint, next: [], rewards: [], losses });
    await expect(text).toMatchFileSnapshot('../../golden/cli/train/summary-supervised.txt');
    expect(text).not.toMatch(/rollout|groups|sampled|reward|version/);
  });

  it('labels the curve with the ends of its axis, which rewards that hardly differ do not fill', () => {
    const curveOf = (...values: readonly number[]) => {
      const rewards = values.map((value, i) => ({ step: i + 1, value }));
      const text = renderTrainingSummary(trainingSummary(trainingRecord()), { columns: 80, paint: noPaint, next: [], rewards });
      const lines = text.split('\n');
      const top = lines.indexOf('training reward by step') + 1;
      return lines.slice(top, top + 5);
    };
    const narrow = curveOf(0.097, 0.119, 0.105);
    expect([narrow[0], narrow[4]!.trim().split(' ')[0]]).toEqual(['    0.197', '0.097']);
    expect(narrow[3]).toMatch(/^ +[▁▂▃▄]+$/);
    expect(curveOf(0.1, 0.9, 0.5)[0]).toMatch(/^ +0\.900 +█+$/);
  });

  it('shows the reward of evaluations next to the losses, and the number of played rollouts', () => {
    const evaluated = trainingSummary(trainingRecord({ rows: supervisedRows({ isEvaluated: true }) }));
    const text = renderTrainingSummary(evaluated, { columns: 80, paint: noPaint, next: [] });
    expect(text).toMatch(/^validation loss +1\.50 at 0 +0\.75 at 12 +0\.50 at 8$/m);
    expect(text).toMatch(/^held-out reward +0\.200 at 0 +0\.600 at 12/m);
    const record = trainingRecord({ rows: [...supervisedRows(), ...trainingRows().slice(1)] });
    const both = trainingSummary({ ...record, best: { ...BEST, adapter: `${record.outcome.directory}/best/adapter` } });
    // The best adapter is that of the supervised steps.
    expect(renderTrainingSummary(both, { columns: 80, paint: noPaint, next: [] })).toMatch(
      /supervised loss[^]*training reward[^]*rows [^]*groups [^]*rollouts [^]*\nbest sft /,
    );
  });

  it('names the metric that chose the best adapter, or that no version beat', () => {
    const evaluated = (...values: readonly number[]): MetricsRow[] =>
      values.map((em, i) => ({
        kind: 'evaluation',
        step: 10 * i,
        values: { rollouts: 4, reward_mean: 0.5 - i / 10, 'rubric/em': em },
      }));
    const summaryOf = (rows: readonly MetricsRow[], greaterIsBetter: boolean, isKept: boolean) => {
      const record = trainingRecord({
        rows: [...trainingRows().filter(({ kind }) => kind === 'step'), ...rows],
      });
      const config = {
        ...record.config,
        checkpoint: { ...record.config.checkpoint, best: 'em', greaterIsBetter },
      };
      const best = isKept ? { metric: 'rubric/em', step: 10, version: 10, value: 0.25, adapter: '/run/best/adapter' } : null;
      return renderTrainingSummary(trainingSummary({ ...record, config, best }), {
        columns: 80,
        paint: noPaint,
        next: [],
      });
    };
    const lowest = summaryOf(evaluated(0.5, 0.25, 0.75), false, true);
    expect(lowest).toMatch(/^held-out em +0\.500 at 0 +0\.750 at 20 +0\.250 at 10$/m);
    expect(lowest).toMatch(/^best by +lowest held-out em, 0\.250 after step 10$/m);
    expect(summaryOf(evaluated(0.5, 0.75), true, true)).toMatch(/^best by +highest held-out em/m);
    expect(summaryOf(evaluated(0.5, 0.25), true, false)).toMatch(/^best +none: no version had a higher held-out em than the start$/m);
    expect(summaryOf(evaluated(0.5, 0.75), false, false)).toMatch(/^best +none: no version had a lower held-out em than the start$/m);
  });

  it('misses the reward of rollouts that all failed after supervised steps', () => {
    const failed: MetricsRow = { kind: 'step', step: 13, values: { rollouts: 0, rollouts_failed: 8, reward_mean: null } };
    const summary = trainingSummary(trainingRecord({ rows: [...supervisedRows(), failed] }));
    expect(renderTrainingSummary(summary, { columns: 80, paint: noPaint, next: [] })).toMatch(/No rollout finished[^]*supervised loss/);
  });

  it('says how rollouts ended, and which were not played', () => {
    const summary = trainingSummary(trainingRecord());
    const given = {
      ...summary,
      rollouts: { finished: 4, failed: 3, unplayed: 2 },
      stopConditions: { completed: 4, prompt_too_long: 2, has_error: 1 },
    };
    const text = renderTrainingSummary(given, { columns: 100, paint: noPaint, next: [] }).replaceAll(/\s+/g, ' ');
    expect(text).toContain('rollouts 4 finished, 3 failed (no reward, not trained on); 2 of these were not played: the policy had no room');
    expect(text).toContain(' ended by completed 4, prompt_too_long 2, has_error 1 ');
  });

  it('quotes the recorded reason of steps that were skipped, with its remedy, whatever the counts suggest', () => {
    const summaryOf = (skipReasons: TrainingSummary['skipReasons'], stepsApplied = 0) => {
      const groups = { trained: 0, constant: 2, tooSmall: 2 };
      const summary = {
        ...trainingSummary(trainingRecord()),
        groups,
        stepsApplied,
        stepsSkipped: 1,
        ...(skipReasons === undefined ? {} : { skipReasons }),
      };
      return renderTrainingSummary(summary, { columns: 100, paint: noPaint, next: [] }).replaceAll(/\s+/g, ' ');
    };
    const masked = { kind: 'masked', text: 'no rollout has a token to train', steps: 1 };
    expect(summaryOf([masked])).toContain('No weight changed: no rollout has a token to train. Raise rollouts.max_tokens');
    expect(summaryOf([masked])).not.toMatch(/rewards within each group|Sample more/);
    expect(summaryOf([{ ...masked, steps: 3 }], 4)).toContain('3 skipped: no rollout has a token to train. Raise rollouts.max_tokens');
    expect(summaryOf([{ kind: null, text: 'all groups are constant', steps: 1 }])).toContain('No weight changed: all groups are constant. groups');
    expect(summaryOf(undefined)).toContain('No weight changed. events.jsonl has the reason of each step.');
    expect(summaryOf(undefined, 3)).not.toContain('No weight changed');
  });

  it('does not call rows held-out if the run trains on them', () => {
    const text = renderTrainingSummary(trainingSummary(trainingRecord()), { columns: 80, paint: noPaint, next: [], evaluationLabel: 'evaluation' });
    expect(text).toMatch(/^evaluation reward +0\.214 at 0/m);
    expect(text).not.toContain('held-out');
  });

  it('has no number for what was not measured', () => {
    const outcome = { reason: 'interrupted', step: 0, version: 0, adapter: null, checkpoint: null, plots: [], events: 0 } as const;
    const summary = trainingSummary(trainingRecord({ rows: [], outcome }));
    const text = renderTrainingSummary(summary, { columns: 80, paint: noPaint, next });
    expect(text).toContain('No step was recorded, so there is no reward.');
    expect(text).toContain('0.0 s: no step was timed');
    expect(text).not.toMatch(/NaN|Infinity|null|undefined/);
  });

  it('draws the training reward over the whole run, what was not reached left empty', () => {
    const summary = trainingSummary(trainingRecord());
    const rewards = [0.25, 0.5, 0.75, 1].map((value, i) => ({ step: 1 + Math.floor((i * summary.steps) / 8), value }));
    const lines = renderTrainingSummary(summary, { columns: 80, paint: noPaint, next: [], rewards }).split('\n');
    const top = lines.indexOf('training reward by step') + 1;
    expect(lines[top]).toMatch(/^ {4}1\.000 {2} +█+$/);
    expect(lines[top + 4]).toMatch(/^ {4}0\.250 {2}▁/);
    expect(lines.slice(top, top + 5).every((line) => cellWidth(line) < 50)).toBe(true);
    expect(lines[top + 5]!.trim()).toMatch(new RegExp(`^1 +${summary.steps}$`));
  });

  it('counts under the held-out reward the rollouts that have none, and those that had no room to be played', () => {
    const rows = trainingRows().map((row) =>
      row.kind === 'evaluation' && row.step === 30
        ? { ...row, values: { ...row.values, rollouts: 4, rollouts_failed: 5, rollouts_unplayed: 4 } }
        : row,
    );
    const text = (of: readonly MetricsRow[]) =>
      renderTrainingSummary(trainingSummary(trainingRecord({ rows: of })), { columns: 80, paint: noPaint, next: [] });
    expect(text(rows)).toMatch(/^ {2}95 % interval.*\n {2}no reward {7}0 of \d+ +5 of 9 .*\n {2}no room to play 0 of \d+ +4 of 9 /m);
    expect(text(trainingRows())).not.toMatch(/^ {2}no /m);
  });

  it('gives a path in one piece, so that it can be copied', () => {
    const adapter = `/runs/${'a-long-name-'.repeat(9)}/adapter`;
    const summary = trainingSummary(trainingRecord({ outcome: { reason: 'finished', adapter } }));
    expect(renderTrainingSummary(summary, { columns: 60, paint: noPaint, next: [] })).toContain(`\nadapter    ${adapter}\n`);
  });

  it('stays within the terminal at any width, commands and paths aside', () => {
    const paint: Paint = (style, text) => styleText(style, text, { validateStream: false });
    for (const columns of [40, 50, 66, 78, 90, 200]) {
      const rewards = Array.from({ length: 30 }, (_, i) => ({ step: i + 1, value: i / 30 }));
      const lines = renderTrainingSummary(trainingSummary(trainingRecord()), { columns, paint, next: [], rewards }).split('\n');
      const places = lines.findIndex((line) => stripVTControlCharacters(line).startsWith('run '));
      expect(places).toBeGreaterThan(0);
      for (const line of lines.slice(0, places)) expect(cellWidth(stripVTControlCharacters(line))).toBeLessThanOrEqual(Math.min(columns, 100));
    }
  });
});
