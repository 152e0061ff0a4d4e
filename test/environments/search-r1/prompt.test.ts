import { createHash } from 'node:crypto';
import { ConfigError } from 'vf-search';
import { makePrefix, normalizeQuestion, toRow } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';

describe('makePrefix', () => {
  it('is upstream’s template byte for byte', () => {
    const digest = createHash('sha256').update(makePrefix('{question}')).digest('hex');
    expect(digest).toBe('325187b4e28848fc12d41dfcb958bf9376b3735630d67686c140b65d1b76d578');
  });

  it.each(['$&', '$1 $$ $`', '{question}', '\u0000', '\ud800', '<|im_end|>'])('keeps %j as it is', (question) => {
    expect(makePrefix(question).endsWith(` Question: ${question}\n`)).toBe(true);
  });
});

describe('normalizeQuestion', () => {
  it('strips what Python strips, no more', () => {
    expect(normalizeQuestion('\u001c\u0085 who \u2029')).toBe('who?');
    expect(normalizeQuestion('\ufeffwho')).toBe('\ufeffwho?');
  });

  it('adds an ASCII question mark unless one is last', () => {
    expect(normalizeQuestion('who ?')).toBe('who ?');
    expect(normalizeQuestion('谁？')).toBe('谁？?');
  });

  it.each(['', '  ', '\u001f\u001e'])('refuses the blank question %j and says what to do', (question) => {
    expect(() => normalizeQuestion(question)).toThrow(ConfigError);
    expect(() => normalizeQuestion(question)).toThrow(/blank question .*remove the row/);
  });
});

describe('toRow', () => {
  it('has upstream’s keys and nothing else', () => {
    const row = toRow({ question: ' who ', golden_answers: ['A', 'b '], data_source: 'hotpotqa', split: 'train', index: 7 });
    expect(row).toEqual({
      data_source: 'hotpotqa',
      prompt: [{ role: 'user', content: makePrefix('who?') }],
      ability: 'fact-reasoning',
      reward_model: { style: 'rule', ground_truth: { target: ['A', 'b '] } },
      extra_info: { split: 'train', index: 7 },
    });
  });
});
