import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseQuestion } from '../../src/schemas/question-row.ts';

describe('parseQuestion', () => {
  it('takes the first answer field that is there, and leaves further ones alone whatever they hold', () => {
    expect(parseQuestion({ question: 'q', golden_answers: ['a'], answers: { text: ['b'] }, answer: 5 })).toEqual({
      ok: true,
      question: { id: null, question: 'q', golden_answers: ['a'], data_source: null, fields: { answers: { text: ['b'] }, answer: 5 } },
    });
    expect(parseQuestion({ question: 'q', answers: { text: ['b'] }, answer: 'a' })).toMatchObject({ ok: false });
  });

  it('gives a question with an answer, or says what is wrong, for any JSON value', () => {
    const field = fc.oneof(fc.jsonValue(), fc.string(), fc.array(fc.string()));
    const keys = ['id', 'question', 'golden_answers', 'answers', 'answer', 'data_source', 'metadata'] as const;
    const row = fc.record(Object.fromEntries(keys.map((key) => [key, field])), { requiredKeys: [] });
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), row), (value) => {
        const parsed = parseQuestion(value);
        if (parsed.ok) accepted += 1;
        return parsed.ok
          ? parsed.question.question.trim() !== '' && parsed.question.golden_answers.length > 0
          : /^expected .*(got|found|such as)/.test(parsed.problem);
      }),
      { numRuns: 2000, seed: 1 },
    );
    expect(accepted).toBeGreaterThan(0);
  });
});
