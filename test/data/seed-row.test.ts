import { describe, expect, it } from 'vitest';
import { type LimoRow, parseLimoRow } from '../../src/data/limo-rows.ts';
import { seedRow, seedRowProblem } from '../../src/data/seed-row.ts';

function limo(changes: object = {}): LimoRow {
  const parsed = parseLimoRow({ question: 'What is 2 + 3?', solution: 'Count on: 3, 4, 5.', answer: '5', ...changes });
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.row;
}

describe('seedRow', () => {
  it('has the solution with weight 1, and the answer with its own weight and the end of the turn', () => {
    expect(seedRow(limo(), { form: 'tags', answerWeight: 0.1, id: 'limo:7' })).toEqual({
      example_id: 'limo:7',
      prompt: [{ role: 'user', content: 'What is 2 + 3?' }],
      segments: [
        { kind: 'model', text: '<think>\nCount on: 3, 4, 5.\n</think>\n', weight: 1 },
        { kind: 'model', text: '<answer>5</answer>', weight: 0.1, ends_turn: true },
      ],
    });
  });

  it('has neither tag where the form is text', () => {
    const { segments } = seedRow(limo(), { form: 'text', answerWeight: 1, id: 'x' });
    expect(segments!.map(({ text }) => text)).toEqual(['Count on: 3, 4, 5.\n\n', '5']);
  });
});

describe('seedRowProblem', () => {
  it('keeps texts with tags out of the form with tags, because they would end early', () => {
    expect(seedRowProblem(limo({ solution: 'so </think> then' }), 'tags')).toBe('its solution contains </think>');
    expect(seedRowProblem(limo({ answer: '<answer>5' }), 'tags')).toBe('its answer contains <answer>');
    expect(seedRowProblem(limo({ question: 'Write <think>' }), 'tags')).toBeNull();
    expect(seedRowProblem(limo({ solution: 'so </think> then' }), 'text')).toBeNull();
  });
});
