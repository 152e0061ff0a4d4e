import { describe, expect, it } from 'vitest';
import { evaluatedRows } from '../../../src/reports/training/evaluation-label.ts';
import { Dataset, type Row } from '../../../src/core/dataset.ts';

type Text = [id: number | string, question: string, ...rest: [answer?: string]];

function rows(...given: readonly Text[]): Dataset {
  const row = ([exampleId, content, answer]: Text): Row => ({
    exampleId,
    prompt: content === '' ? [] : [{ role: 'user', content }],
    ...(answer === undefined ? {} : { answer }),
  });
  return new Dataset('rows', given.map(row));
}

const TRAIN = rows([1, 'Who?'], [2, 'Where?'], [3, 'When?']);

describe('evaluatedRows', () => {
  it.each([
    ['all rows', TRAIN, 'The evaluation rows are training rows'],
    ['some of the rows', rows([1, 'Who?'], [2, 'Where?']), 'The evaluation rows are training rows'],
    ['a row under another id', rows(['eval/0', 'Who?'], [9, 'Why?']), '1 of the 2 evaluation rows is also a training row'],
    ['two rows of three', rows([9, 'Why?'], [1, 'Who?'], [2, 'Where?']), '2 of the 3 evaluation rows are also training rows'],
  ])('names %s that the run trains on', (_, evaluated, text) => {
    expect(evaluatedRows({ train: TRAIN }, { eval: evaluated })).toEqual({ label: 'evaluation', notice: expect.stringContaining(`${text}; set`) });
  });

  it('says held-out of other rows, also where all have one prompt or none, and of those that are trained on but not played', () => {
    const heldOut = { label: 'held-out', notice: null };
    const game = rows([1, 'Guess', '7'], [2, 'Guess', '8']);
    const silent = rows([1, ''], [2, '']);
    expect(evaluatedRows({ train: TRAIN }, { eval: rows([1, 'Why?']) })).toEqual(heldOut);
    expect(evaluatedRows({ train: game }, { eval: rows([1, 'Guess', '9']) })).toEqual(heldOut);
    expect(evaluatedRows({ train: game }, { eval: rows([5, 'Guess', '8']) }).label).toBe('evaluation');
    expect(evaluatedRows({ train: silent }, { eval: rows([3, '']) })).toEqual(heldOut);
    expect(evaluatedRows({ train: silent }, { eval: rows([2, '']) }).label).toBe('evaluation');
    expect(evaluatedRows({ train: TRAIN }, { eval: rows([9, 'Why?'], [1, 'Who?']) }, 1)).toEqual(heldOut);
  });
});
