import { describe, expect, it } from 'vitest';
import { ResultsError } from '../../../src/core/errors.ts';
import { CurveLog, type CurveFile, curvePoints } from '../../../src/trainer/curves/curve-log.ts';
import type { RecordedMetricsRow, TrainingStart } from '../../../src/trainer/training-observer.ts';

const row = (step: number, kind: RecordedMetricsRow['kind'] = 'step'): RecordedMetricsRow => ({
  kind,
  step,
  time: '2026-01-02T03:04:05.678Z',
  values: { reward_mean: step / 10 },
});

/** A log whose files are lists of what happened to them. */
function logInMemory(append: (step: number) => void = () => {}) {
  const files: (number | string)[][] = [];
  const failures: string[] = [];
  const open = ({ rows }: TrainingStart): CurveFile => {
    const file: (number | string)[] = rows.map(({ step }) => step);
    files.push(file);
    return {
      append({ step }) {
        append(step);
        file.push(step);
      },
      close: (isFinished) => void file.push(isFinished ? 'finished' : 'closed'),
    };
  };
  return { files, failures, log: new CurveLog({ viewer: 'a viewer', open, onFailure: (message) => failures.push(message) }) };
}

describe('CurveLog', () => {
  it('begins a new file with the rows on file wherever the run starts or goes back', () => {
    const { log, files } = logInMemory();
    log.onStart({ step: 0, rows: [] });
    [row(1), row(2), row(3)].forEach((each) => log.onStep(each));
    log.onEvaluation(row(3, 'evaluation'));
    log.onValidation(row(4, 'validation'));
    log.onStart({ step: 2, rows: [row(1), row(2)] });
    log.onStep(row(3));
    log.close({ isFinished: true });
    expect(files).toEqual([
      [1, 2, 3, 3, 4, 'closed'],
      [1, 2, 3, 'finished'],
    ]);
  });

  it('ends with one message where a file cannot be written, and lets the run go on', () => {
    const { log, files, failures } = logInMemory((step) => {
      if (step === 2) throw new ResultsError('The disk is full.');
    });
    log.onStart({ step: 0, rows: [] });
    [row(1), row(2), row(3)].forEach((each) => log.onStep(each));
    log.close({ isFinished: true });
    expect(files).toEqual([[1]]);
    expect(failures).toEqual(['The disk is full. No more curves for a viewer; metrics.jsonl has every value, and -R writes the curves again.']);
  });

  it('creates nothing for a run that never starts', () => {
    const { log, files } = logInMemory();
    log.close({ isFinished: false });
    expect(files).toEqual([]);
  });
});

describe('curvePoints', () => {
  it('are grouped by what measured them, and leave out what was not measured', () => {
    const values = { loss: 0.5, kl: null, 'rubric/em': 0, 'reward/nq': -1, policy_loss: -0 };
    expect(curvePoints({ kind: 'step', values })).toEqual([
      { tag: 'train/loss', value: 0.5 },
      { tag: 'train/rubric/em', value: 0 },
      { tag: 'train/reward/nq', value: -1 },
      // JSON, and so metrics.jsonl, has no negative zero.
      { tag: 'train/policy_loss', value: 0 },
    ]);
    expect(curvePoints({ kind: 'evaluation', values })[0]).toEqual({ tag: 'eval/loss', value: 0.5 });
    expect(curvePoints({ kind: 'validation', values })[0]).toEqual({ tag: 'validation/loss', value: 0.5 });
  });
});
