/** 2 MB of what a model might write to hurt us. Upstream's lazy regular expressions are quadratic here: a port of them never ends in time. */
import {
  computeScoreEmFormat,
  cutResponse,
  extractInformationBlocks,
  extractSolution,
  isRetrievalCorrect,
  isValidSequence,
  normalizeAnswer,
  observation,
  parseAction,
} from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';
import { environmentWith, play } from './fixtures.ts';

const SIZE = 2_000_000;
const fill = (piece: string) => piece.repeat(Math.floor(SIZE / piece.length));
const TEXTS: [string, string][] = [
  ['unclosed answers', fill('<answer>')],
  ['unclosed searches and closed answers in the wrong order', fill('</answer><search>')],
  ['alternating opens', fill('<search><answer><information><think>')],
  ['whitespace', `x${fill(' \n\u0085')}x`],
  ['empty blocks', fill('<think></think>')],
  ['half tags', fill('</answe')],
  ['lone surrogates and NUL', fill('\ud800\u0000')],
];

describe('2 MB of hostile text', () => {
  it.each(TEXTS)('%s is read in one pass', (_name, text) => {
    const sequence = `<|im_start|>assistant\n${text}`;
    expect(cutResponse(text).length).toBeLessThanOrEqual(text.length);
    parseAction(text);
    extractSolution(sequence);
    extractInformationBlocks(sequence);
    expect(isRetrievalCorrect(sequence, ['Paris'])).toBe(false);
    expect(isValidSequence(sequence).valid).toBe(false);
    expect(computeScoreEmFormat(sequence, { target: ['Paris'] })).toBe(0);
    expect(observation([{ contents: text }]).endsWith('</information>\n\n')).toBe(true);
  });

  it.each([
    ['articles', fill('the a an ')],
    ['dashes', fill('-')],
    ['combining marks', fill('a\u0301').slice(0, SIZE / 4)],
    ['spaces between words', `x${fill(' ')}y`],
  ])('%s are normalised in one pass', (_name, text) => {
    expect(normalizeAnswer(text).length).toBeLessThan(text.length);
  });

  it('is scored like any other rollout', async () => {
    const environment = environmentWith({ maxTurns: 0, limits: { responseTokens: Infinity, contextTokens: Infinity } });
    const { score } = await play(environment, [fill('<answer>').slice(0, SIZE / 10)], { kind: 'chat' });
    expect(await score()).toMatchObject({ reward: 0, metrics: { answered: 0, format_valid: 0 } });
  });
});
