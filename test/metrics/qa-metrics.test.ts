import { describe, expect, it } from 'vitest';
import { greedyBoxed, boxed } from '../../src/metrics/boxed.ts';
import { answerScores, choiceScores } from '../../src/metrics/answer-scores.ts';
import { computeMetrics, isQaMetric, PreparedPrediction, QA_METRICS, qaMetric } from '../../src/metrics/qa-metrics.ts';

describe('qaMetric', () => {
  it('takes the best golden answer, and the share of them for stringem', () => {
    const golden = ['Paris', 'City of Light'];
    const values = Object.fromEntries(QA_METRICS.map((name) => [name, qaMetric(name, 'paris!', golden)]));
    expect(values).toEqual({ acc: 1, em: 1, stringem: 0.5, coverem: 1, f1: 1, 'rouge-1': 1, 'rouge-2': 0, 'rouge-l': 1 });
  });

  it('gives no credit for an empty prediction, which the first releases of UltraRAG did', () => {
    expect([qaMetric('acc', '', ['x']), qaMetric('acc_v20', '', ['x'])]).toEqual([0, 1]);
  });

  it.each(QA_METRICS)('%s is 0 without a golden answer', (name) => {
    expect(qaMetric(name, 'x', [])).toBe(0);
  });

  it.each([
    ['words', 'x '.repeat(5_000_000)],
    ['one word', 'y'.repeat(2_000_000)],
    ['articles', 'the '.repeat(2_500_000)],
    ['open boxes', '\\boxed{'.repeat(500_000)],
    ['surrogates and NUL', '\ud800\0'.repeat(1_000_000)],
  ])('reads 2 MB of hostile text in one pass: %s', (_name, text) => {
    const prepared = new PreparedPrediction(text, ['gold and the rest']);
    for (const name of QA_METRICS) expect(prepared.metric(name)).toBeLessThan(0.5);
  });
});

describe('computeMetrics', () => {
  it('computes all by default, with means, and reports names that it does not know', () => {
    const unknown: string[] = [];
    const result = computeMetrics(['Paris', 'Rome'], [['Paris'], ['Oslo'], ['never asked']], {
      metrics: ['EM', 'bleu'],
      onUnknown: (name) => unknown.push(name),
    });
    expect(result).toEqual({ em: [1, 0], avg_em: 0.5, bleu: [], avg_bleu: 0 });
    expect(unknown).toEqual(['bleu']);
    expect(Object.keys(computeMetrics([], []))).toHaveLength(2 * QA_METRICS.length);
    expect([isQaMetric('acc_v20'), isQaMetric('bleu')]).toEqual([true, false]);
  });
});

describe('boxed', () => {
  it('matches braces however deep they are nested', () => {
    const depth = 300_000;
    expect(boxed(`\\boxed{${'{'.repeat(depth)}x${'}'.repeat(depth)}}`)).toHaveLength(2 * depth + 1);
    expect(boxed('\\boxed{'.repeat(depth))).toBe('');
  });
});

describe('greedyBoxed', () => {
  it('takes the last line that has a box, from its first box to its last brace', () => {
    expect(greedyBoxed('\\boxed{a}\n\\boxed{b} and {c}\nend')).toBe('b} and {c');
    expect(greedyBoxed('\\boxed{\\text{(A)}}', { isAnswer: true })).toBe('A');
    expect(greedyBoxed('} \\boxed{')).toBe('');
    expect(greedyBoxed('\n\nno box')).toBe('');
    expect(greedyBoxed('\\boxed{'.repeat(500_000))).toBe('');
  });
});

describe('answerScores and choiceScores', () => {
  it('need a common word for the answer to a question, which they normalise more than a choice', () => {
    expect(answerScores('the', ['a'])).toEqual({ acc: 0, em: 0, f1: 0 });
    expect(answerScores('The Eiffel-Tower', ['eiffeltower'])).toEqual({ acc: 1, em: 1, f1: 1 });
    expect(choiceScores('the A', 'a')).toEqual({ acc: 1, em: 0, f1: 2 / 3 });
  });

  it('look for a choice or a formula inside the prediction, with or without a common word', () => {
    expect(choiceScores('B) Paris', 'B')).toEqual({ acc: 1, em: 0, f1: 0 });
    expect(choiceScores('x=5', '5')).toEqual({ acc: 1, em: 0, f1: 0 });
    expect(choiceScores('', 'A')).toEqual({ acc: 0, em: 0, f1: 0 });
    expect(answerScores('x=5', ['5'])).toEqual({ acc: 0, em: 0, f1: 0 });
  });
});
