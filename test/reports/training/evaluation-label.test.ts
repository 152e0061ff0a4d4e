import { describe, expect, it } from 'vitest';
import { evaluationLabel } from '../../../src/reports/training/evaluation-label.ts';
import { Dataset } from '../../../src/core/dataset.ts';

const rows = (ids: readonly number[]) =>
  new Dataset(
    'rows',
    ids.map((exampleId) => ({ exampleId, prompt: [] })),
  );

describe('evaluationLabel', () => {
  it('says held-out only of rows that are not those to train on', () => {
    const train = rows([1, 2]);
    expect(evaluationLabel({ train }, { eval: train })).toBe('evaluation');
    expect(evaluationLabel({ train }, { eval: rows([3, 4]) })).toBe('held-out');
    expect(evaluationLabel({ train }, { eval: rows([1]) })).toBe('held-out');
  });
});
