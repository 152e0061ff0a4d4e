import { describe, expect, it } from 'vitest';
import { noPaint } from '../../../src/reports/text/paint.ts';
import { renderTrainingSummary } from '../../../src/reports/training/render-training-summary.ts';
import { trainingSummary } from '../../../src/reports/training/training-summary.ts';
import { schemaCheck } from '../../../src/schemas/schema-check.ts';
import { trainingSummarySchema, trainingSummaryToWire } from '../../../src/schemas/training-summary.ts';
import type { MetricsRow } from '../../../src/trainer/training-observer.ts';
import { trainingRecord } from '../../cli/train/training-record.ts';
import { supervisedRows, trainingRows } from '../../cli/train/training-rows.ts';

const step = (number: number, values: MetricsRow['values']): MetricsRow => ({ kind: 'step', step: number, values });

describe('trainingSummary', () => {
  it('adds up the wall clock: phases, what is left of the steps, evaluations and checkpoints besides', () => {
    const rows: MetricsRow[] = [
      { kind: 'evaluation', step: 0, values: { evaluation_seconds: 5 } },
      step(1, {
        step_seconds: 10,
        rollouts_seconds: 4,
        forward_seconds: 1,
        backward_seconds: 2,
        update_seconds: 0.5,
        publish_seconds: 0.5,
        checkpoint_seconds: 1,
      }),
      step(2, { step_seconds: 6, rollouts_seconds: 6 }),
    ];
    const { seconds } = trainingSummary(trainingRecord({ rows }));
    expect(seconds).toEqual({ total: 22, rollouts: 10, forward: 1, backward: 2, update: 0.5, publish: 0.5, evaluation: 5, checkpoint: 1, other: 2 });
  });

  it('weighs the log-prob difference by trained tokens and keeps the largest', () => {
    const rows = [
      step(1, { log_prob_difference_mean: 1e-6, log_prob_difference_max: 4e-5, trained_tokens: 300 }),
      step(2, { log_prob_difference_mean: 5e-6, log_prob_difference_max: 1e-5, trained_tokens: 100 }),
      step(3, { log_prob_difference_mean: null, trained_tokens: 900 }),
    ];
    const { logProbDifference } = trainingSummary(trainingRecord({ rows }));
    expect(logProbDifference!.mean).toBeCloseTo(2e-6, 12);
    expect(logProbDifference!.max).toBe(4e-5);
  });

  it('leaves out steps without a reward: a failure is not a zero', () => {
    const rows = [
      step(1, { reward_mean: null, rollouts_failed: 8 }),
      step(2, { reward_mean: 0.5 }),
      step(3, { reward_mean: 0.25 }),
      step(4, { reward_mean: null }),
    ];
    const { reward, rollouts } = trainingSummary(trainingRecord({ rows }));
    expect(reward).toEqual({ first: { step: 2, value: 0.5 }, last: { step: 3, value: 0.25 }, best: { step: 2, value: 0.5 } });
    expect(rollouts.failed).toBe(8);
  });

  it('counts groups that were compared but not trained, so that the counts add up', () => {
    const rows = [
      step(1, { groups: 4, groups_trained: 1, groups_constant: 1, groups_too_small: 1 }),
      step(2, { groups: 3, groups_trained: 3, groups_constant: 0, groups_too_small: 0 }),
    ];
    const summary = trainingSummary(trainingRecord({ rows }));
    expect(summary.groups).toEqual({ trained: 4, constant: 1, tooSmall: 1, untrained: 2 });
    expect(renderTrainingSummary(summary, { columns: 100, paint: noPaint, next: [] })).toContain(
      '4 trained, 1 with equal rewards, 1 too small, 2 left out for other reasons',
    );
    expect(trainingSummary(trainingRecord({ rows: rows.slice(1) })).groups).toEqual({ trained: 3, constant: 0, tooSmall: 0 });
  });

  it('counts the failed rollouts that ended the run, which no row counts', () => {
    expect(trainingSummary(trainingRecord({ rows: [], outcome: { failedRollouts: 3 } })).rollouts).toEqual({ finished: 0, failed: 3 });
  });

  it('adds up the ways in which rollouts ended, most frequent first, and those that were not played', () => {
    const rows = [
      step(1, { rollouts_failed: 3, rollouts_unplayed: 2, 'stop/completed': 1, 'stop/prompt_too_long': 3 }),
      step(2, { 'stop/completed': 1, 'stop/max_turns_reached': 2 }),
      { kind: 'evaluation', step: 2, values: { 'stop/completed': 9 } } as const,
    ];
    const { rollouts, stopConditions } = trainingSummary(trainingRecord({ rows }));
    expect(rollouts).toMatchObject({ failed: 3, unplayed: 2 });
    expect(Object.entries(stopConditions!)).toEqual([
      ['prompt_too_long', 3],
      ['completed', 2],
      ['max_turns_reached', 2],
    ]);
  });

  it('counts a step without an update as skipped', () => {
    expect(trainingSummary(trainingRecord())).toMatchObject({ stepsApplied: 29, stepsSkipped: 1 });
  });

  it('takes held-out reward from the first evaluation to the last, with intervals', () => {
    const { heldOut } = trainingSummary(trainingRecord());
    expect([heldOut!.start.step, heldOut!.end.step, heldOut!.evaluations]).toEqual([0, 30, 7]);
    expect(heldOut!.start.low).toBeLessThan(heldOut!.start.value);
    expect(heldOut!.end.high).toBeGreaterThan(heldOut!.end.value);
  });
});

describe('trainingSummary of supervised steps', () => {
  it('has the loss of the steps and of the held-out rows: first, last and lowest', () => {
    const best = { metric: 'validation_nll', step: 5, version: 5, value: 0.4, adapter: '/run/best/adapter' } as const;
    const { supervised, reward, heldOut } = trainingSummary({ ...trainingRecord({ rows: supervisedRows() }), best });
    expect(supervised).toEqual({
      demonstrations: 96,
      tokens: 2400,
      loss: { first: { step: 1, value: 1.4 }, last: { step: 12, value: 1.4 / 12 }, best: { step: 12, value: 1.4 / 12 } },
      validationLoss: { first: { step: 0, value: 1.5 }, last: { step: 12, value: 0.75 }, best: { step: 8, value: 0.5 } },
      bestAdapter: '/run/best/adapter',
    });
    expect([reward, heldOut]).toEqual([null, null]);
  });

  it('takes the loss that a run names itself where it has no other', () => {
    const named = supervisedRows().map(({ values: { 'loss/sft/nll': nll = null, ...values }, ...row }) => ({
      ...row,
      values: row.kind === 'step' ? { ...values, 'loss/demos/loss': 9, 'loss/demos/nll': nll } : values,
    }));
    expect(trainingSummary(trainingRecord({ rows: named })).supervised!.loss!.first.value).toBe(1.4);
  });

  it('is null for a run without demonstrations', () => {
    expect(trainingSummary(trainingRecord()).supervised).toBe(null);
  });
});

describe('trainingSummaryToWire', () => {
  const check = schemaCheck(trainingSummarySchema);

  it.each([
    ['a whole run', trainingRows()],
    ['a run without evaluations', trainingRows().filter(({ kind }) => kind === 'step')],
    ['an empty run', []],
    ['supervised steps', supervisedRows()],
  ])('matches its schema in every field: %s', (_, rows) => {
    const wire: unknown = JSON.parse(JSON.stringify(trainingSummaryToWire(trainingSummary(trainingRecord({ rows })))));
    expect([check(wire), check.errors]).toEqual([true, null]);
  });

  it('is refused by its schema with a field more or less', () => {
    const wire = trainingSummaryToWire(trainingSummary(trainingRecord()));
    const { held_out: _, ...less } = wire;
    expect([check(wire), check(less), check({ ...wire, more: 1 })]).toEqual([true, false, false]);
  });

  it('keeps every name in snake_case', () => {
    const names = JSON.stringify(trainingSummaryToWire(trainingSummary(trainingRecord()))).matchAll(/"(\w+)":/g);
    for (const [, name] of names) expect(name).toMatch(/^[a-z0-9_]+$/);
  });

  it('reports no overhead of the trainer when the engine computed in its process, and names the transcripts', () => {
    const record = { ...trainingRecord(), sharesProcess: true, transcripts: '/run/transcripts.txt' };
    expect(trainingSummary(record)).toMatchObject({ overheadShare: null, transcripts: '/run/transcripts.txt' });
    expect(trainingSummary(trainingRecord())).toMatchObject({ overheadShare: expect.any(Number), transcripts: null });
  });
});
