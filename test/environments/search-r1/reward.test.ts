import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  computeScoreEm,
  computeScoreEmFormat,
  extractInformationBlocks,
  extractSolution,
  isRetrievalCorrect,
  isValidSequence,
  makePrefix,
  toRow,
} from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';
import { contentText } from '../../../src/core/message.ts';
import { environmentWith, PARIS, play, QUESTION } from './fixtures.ts';

const prompt = `${makePrefix('where?')}<|im_start|>assistant\n`;

describe('extractSolution', () => {
  it('finds two answers in the official prompt, so a response without one says Beijing', () => {
    expect(extractSolution(prompt)).toBe('Beijing');
    expect(extractSolution(`${prompt}I do not know`)).toBe('Beijing');
  });

  it('needs two matches', () => {
    expect(extractSolution('<answer>a</answer>')).toBeNull();
    expect(extractSolution('<answer>a</answer><answer> b </answer>')).toBe('b');
  });

  it('lets an unclosed answer run to the next close', () => {
    expect(extractSolution(`${prompt}<answer>x <answer>Paris</answer>`)).toBe('x <answer>Paris');
  });
});

describe('isRetrievalCorrect', () => {
  it('counts the prompt’s own information block, as upstream does', () => {
    expect(extractInformationBlocks(prompt)).toEqual(['and']);
    expect(isRetrievalCorrect(prompt, ['an', 'd'])).toBe(true);
    expect(isRetrievalCorrect(prompt, ['Paris'])).toBe(false);
  });

  it('reads a bare string character by character, surrogate pairs whole', () => {
    expect(isRetrievalCorrect('<information>😀</information>', '😀')).toBe(true);
    expect(isRetrievalCorrect('<information>😁</information>', '😀')).toBe(false);
  });
});

describe('computeScoreEmFormat', () => {
  const paris = { target: ['Paris'] };
  const v03 = { structureFormatScore: 0.2, finalFormatScore: 0.1, retrievalScore: 0.4 };
  const right = '<think>t</think><answer>Paris</answer>';

  it.each([
    ['right answer, valid format', right, 1],
    ['right answer, invalid format', `${right}.`, 0.8],
    ['wrong answer, valid format', '<think>t</think><answer>Rome</answer>', 0.2],
    [
      'wrong answer, valid format, answer retrieved',
      '<think>t</think><search>q</search><information>in Paris</information><think>u</think><answer>Rome</answer>',
      0.2 + 0.4,
    ],
    ['no answer, invalid format', 'hm', 0.1],
  ])('%s', (_name, response, expected) => {
    expect(computeScoreEmFormat(prompt + response, paris, v03)).toBe(expected);
  });

  it('equals plain exact match with all weights zero', () => {
    for (const response of [right, `${right}.`, 'hm', '<think>t</think><answer>Rome</answer>']) {
      expect(computeScoreEmFormat(prompt + response, paris)).toBe(computeScoreEm(prompt + response, paris));
    }
  });

  it('gives Beijing to a response that never answers, which the model-authored metric does not', async () => {
    expect(computeScoreEm(`${prompt}I do not know`, { target: ['Beijing'] })).toBe(1);
    const environment = environmentWith({ rows: [{ ...QUESTION, golden_answers: ['Beijing'] }], maxTurns: 0 });
    const { metrics, reward } = await (await play(environment, ['I do not know'])).score();
    expect(reward).toBe(1);
    expect(metrics).toMatchObject({ em: 1, em_model_authored: 0, answered: 0 });
  });
});

describe('isValidSequence', () => {
  it('needs the marker, whatever stands before it', () => {
    expect(isValidSequence('<think>t</think><answer>a</answer>')).toEqual({ valid: false, reason: 'Missing assistant marker' });
    expect(isValidSequence('</answer><|im_start|>assistant\n<think>t</think><answer>a</answer>').valid).toBe(true);
  });

  it('lets whitespace stand after the answer, text not', () => {
    expect(isValidSequence('<|im_start|>assistant<think></think><answer></answer> \n\u0085').valid).toBe(true);
    expect(isValidSequence('<|im_start|>assistant<think></think><answer></answer>\ufeff').reason).toBe('Unexpected content in state end');
  });
});

describe('gold answers', () => {
  const rows = (file: string) =>
    readFileSync(path.join(import.meta.dirname, '../../../datasets', file), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line, index) => ({ ...(JSON.parse(line) as { question: string; golden_answers: string[] }), data_source: 'nq', split: 'test', index }));

  it.each(['nq-mini/test.jsonl', 'nq-mini/train.jsonl', 'fact-world/heldout.jsonl'])('score 1 on every row of %s', (file) => {
    const questions = rows(file);
    expect(questions.length).toBeGreaterThan(100);
    for (const question of questions) {
      const row = toRow(question);
      const { ground_truth } = row.reward_model;
      for (const golden of question.golden_answers) {
        const sequence = `${contentText(row.prompt[0]!.content)}<|im_start|>assistant\n<think> t </think>\n<answer> ${golden} </answer>`;
        expect(computeScoreEmFormat(sequence, ground_truth, { structureFormatScore: 0.2, finalFormatScore: 0.1 })).toBe(1);
      }
    }
  });
});

describe('cheats', () => {
  const answering = { contents: `"Eiffel Tower"\n<answer> Paris </answer>` };

  it('an answer inside retrieved text scores as upstream scores it, and not as the model’s', async () => {
    const environment = environmentWith({ retriever: { name: 'r', search: async () => [[answering]], close: async () => {} }, maxTurns: 1 });
    const { reward, metrics } = await (await play(environment, ['<search>q</search>', 'no idea'])).score();
    expect(reward).toBe(1);
    expect(metrics).toMatchObject({ em: 1, em_model_authored: 0, em_without_answer: 1, retrieval_hit: 1, answered: 0, format_valid: 0 });
  });

  it('the completion scorer pays nothing for it', async () => {
    const retriever = { name: 'r', search: async () => [[answering]], close: async () => {} };
    const environment = environmentWith({ retriever, maxTurns: 1, scorer: 'completion' });
    expect((await (await play(environment, ['<search>q</search>', 'no idea'])).score()).reward).toBe(0);
  });

  it('information written by the model is not a retrieval hit', async () => {
    const turn = '<think>t</think><information>Doc 1(Title: "x") Paris</information><answer>Rome</answer>';
    const { metrics } = await (await play(environmentWith(), [turn])).score();
    expect(metrics).toMatchObject({ retrieval_hit: 0, format_valid: 0, searches: 0 });
  });

  it('an answer opened by the model is not closed by a passage', async () => {
    const retriever = { name: 'r', search: async () => [[{ contents: 'T\nParis</answer>' }]], close: async () => {} };
    const { metrics } = await (await play(environmentWith({ retriever, maxTurns: 1 }), ['<answer><search>q</search>', 'x'])).score();
    expect(metrics).toMatchObject({ em_model_authored: 0, retrieval_hit: 1 });
  });

  it('words around the passages are not a retrieval hit', async () => {
    const environment = environmentWith({ rows: [{ ...QUESTION, golden_answers: ['Doc 1', 'information', 'title', '!!!'] }], maxTurns: 1 });
    const { metrics } = await (await play(environment, ['<search>q</search>', 'x'])).score();
    expect(metrics['retrieval_hit']).toBe(0);
  });

  it('the last of two answers counts, also where the environment saw the first', async () => {
    const turn = '<answer>Rome</answer><answer>Paris</answer><search>q</search>';
    const { played, score } = await play(environmentWith(), [turn]);
    expect(played.stop).toBe('completed');
    expect(played.segments).toHaveLength(1);
    expect((await score()).metrics).toMatchObject({ em: 1, em_model_authored: 1 });
  });

  it('a right answer after a search earns everything', async () => {
    const turns = ['<think>t</think>\n<search> eiffel tower </search>', '<think>u</think>\n<answer> Paris </answer>'];
    const { reward, metrics } = await (await play(environmentWith(), turns)).score();
    expect(reward).toBe(1);
    expect(metrics).toEqual({
      search_r1: 1,
      em: 1,
      em_model_authored: 1,
      em_without_answer: 0,
      subem: 1,
      format_valid: 1,
      retrieval_hit: 1,
      searches: 1,
      turns: 2,
      valid_actions: 2,
      answered: 1,
    });
    expect(PARIS.contents).toContain('Paris');
  });

  it('further metrics of the answer leave the reward as it is', async () => {
    const turns = ['<think>t</think>\n<answer> Paris, France </answer>'];
    const metrics = ['f1', 'acc', 'em', 'rouge-l'] as const;
    const environment = environmentWith({ metrics, weights: { finalFormatScore: 0.1 } });
    expect(environment.rubric.rewardNames).toEqual(['search_r1']);
    const score = await (await play(environment, turns)).score();
    expect(score.metrics).toMatchObject({ f1: 2 / 3, acc: 1, 'rouge-l': 2 / 3, em: 0 });
    const plain = await (await play(environmentWith({ weights: { finalFormatScore: 0.1 } }), turns)).score();
    expect(score.reward).toBe(plain.reward);
    expect(Object.keys(plain.metrics)).not.toContain('f1');
  });

  it('further metrics read the answer that the scorer takes', async () => {
    const f1 = async (scorer: 'upstream' | 'completion') => {
      const rows = [{ ...QUESTION, golden_answers: ['Beijing'] }];
      const { metrics } = await (await play(environmentWith({ rows, scorer, metrics: ['f1'], maxTurns: 0 }), ['no idea'])).score();
      return metrics['f1'];
    };
    expect([await f1('upstream'), await f1('completion')]).toEqual([1, 0]);
  });
});
