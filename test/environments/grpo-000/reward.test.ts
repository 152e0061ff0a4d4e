import { answerReward, finalAnswer, formatReward, searchQuery, withoutThinking } from 'vf-search/environments/grpo-000';
import { describe, expect, it } from 'vitest';

const PAIR = '<search>q</search><information>r</information>';

describe('formatReward', () => {
  it.each([
    ['a plain answer', '<answer>a</answer>', 0.5, 0.5],
    ['a search with its information', `${PAIR}<answer>a</answer>`, 0.5, 0.5],
    ['no answer', PAIR, -1, -1],
    ['text after the answer', '<answer>a</answer> so it is', -1, -1],
    ['a search without information', '<search>q</search><answer>a</answer>', -1, -1],
    ['two answers', '<answer>a</answer><answer>b</answer>', -1, -1],
    ['an answer inside a think block alone', '<think><answer>a</answer></think>', -1, -1],
    ['information before its search', '<information>r</information><search>q</search><answer>a</answer>', -1, 0.5],
    ['two searches before their information', `<search>q</search>${PAIR}<information>r</information><answer>a</answer>`, -1, 0.5],
    ['a think block anywhere', `<think>t</think>${PAIR}<think></think><answer>a</answer>\n`, 0.5, 0.5],
  ])('%s: strict %d, counted %d', (_name, text, strict, counted) => {
    expect([formatReward(text), formatReward(text, { strict: false })]).toEqual([strict, counted]);
  });

  it('takes its amounts from the configuration', () => {
    expect([formatReward('<answer></answer>', { reward: 0.2 }), formatReward('', { penalty: -3 })]).toEqual([0.2, -3]);
  });
});

describe('answerReward', () => {
  it.each([
    ['Foo', 'Foo', 2],
    ['foo ', 'Foo', 1],
    ['Foo Bar', 'Foo Bar Baz', 1],
    ['Abc', 'Xyz', 0],
    ['', 'x', 0],
    ['x', '', 0],
    ['未找到相关内容', 'Xyz', 0.5],
    ['未找到相关内容', '未找到相关内容', 2],
  ])('%j against %j is worth %d', (answer, truth, value) => {
    expect(answerReward(answer, truth)).toBe(value);
  });

  it('takes its amounts from the configuration', () => {
    const amounts = { exact: 5, similar: 3, notFound: 1 };
    expect(['Paris', 'paris', '未找到相关内容', 'x'].map((answer) => answerReward(answer, 'Paris', amounts))).toEqual([5, 3, 1, 0]);
  });
});

describe('finalAnswer', () => {
  it('is the first closed answer outside of think blocks, or what follows the last open one', () => {
    expect(finalAnswer('<think><answer>no</answer></think><answer> a </answer><answer>b</answer>')).toBe('a');
    expect(finalAnswer('<answer>x<answer> 22:')).toBe('22:');
    expect(finalAnswer('22:00')).toBe('');
  });
});

describe('searchQuery', () => {
  it.each([
    ['<search> a b </search>', 'a b'],
    ['<think>t</think><search>q</search>', 'q'],
    ['<think>t<search>q</search>', null],
    ['<think><search>q</think></search>', null],
    ['<search> \n</search>', null],
    ['q</search>', null],
    ['<search</search>', null],
    ['<search>a<search>b</search>', 'a<search>b'],
  ])('%j asks %j', (text, query) => {
    expect(searchQuery(text)).toBe(query);
  });
});

describe('up to 10 MB of hostile text', () => {
  const fill = (piece: string) => piece.repeat(Math.floor(10_000_000 / piece.length));
  it.each([
    ['open answers', fill('<answer>')],
    ['500,000 open tags of each kind', '<think><search><information><answer>'.repeat(500_000)],
    ['closed think blocks', fill('<think></think>')],
    ['searches and answers in the wrong order', fill('</answer><search>')],
    // Each word is normalised, which takes longer.
    ['an answer', `<answer>${'x '.repeat(1_000_000)}</answer>`],
    ['whitespace', `x${fill(' \n\x85')}x`],
    ['lone surrogates and NUL', fill('\ud800\0')],
  ])('%s is judged in one pass', (_name, text) => {
    formatReward(text);
    formatReward(text, { strict: false });
    searchQuery(`${text}</search>`);
    expect(withoutThinking(text).length).toBeLessThanOrEqual(text.length);
    expect(answerReward(finalAnswer(text), '22:00')).toBe(0);
  });
});
