import fc from 'fast-check';
import { cutResponse, formatPassages, observation, parseAction } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';

const soup = fc
  .array(fc.constantFrom('<search>', '</search>', '<answer>', '</answer>', '<Search>', '<search >', ' ', '\n', 'x', '$&', '\u0000', '\ud800', '<'), {
    maxLength: 14,
  })
  .map((pieces) => pieces.join(''));

describe('parseAction', () => {
  it('is what the backtracking regular expression finds {any tag soup}', () => {
    fc.assert(
      fc.property(soup, (text) => {
        const match = /<(search|answer)>([^]*?)<\/\1>/.exec(text);
        const { action, content } = parseAction(text);
        expect(action).toBe(match?.[1] ?? null);
        expect(content).toBe((match?.[2] ?? '').replace(/^[\s]+|[\s]+$/g, ''));
      }),
      { numRuns: 200 },
    );
  });

  it('takes the first action and a matching close', () => {
    expect(parseAction('<answer>a</answer><search>q</search>')).toEqual({ action: 'answer', content: 'a' });
    expect(parseAction('<search> x <answer>a</answer>')).toEqual({ action: 'answer', content: 'a' });
    expect(parseAction('<search></search>')).toEqual({ action: 'search', content: '' });
    expect(parseAction('<search>a</answer>')).toEqual({ action: null, content: '' });
  });
});

describe('cutResponse', () => {
  it('ends at the first </search> even after an answer, else at the first </answer>', () => {
    expect(cutResponse('<answer>a</answer> <search>b</search> c</search>')).toBe('<answer>a</answer> <search>b</search>');
    expect(cutResponse('<answer>a</answer> b</answer>')).toBe('<answer>a</answer>');
    expect(cutResponse('nothing')).toBe('nothing');
  });

  it('is a prefix of its input and cuts once {any tag soup}', () => {
    fc.assert(
      fc.property(soup, (text) => {
        const cut = cutResponse(text);
        expect(text.startsWith(cut)).toBe(true);
        expect(cutResponse(cut)).toBe(cut);
      }),
      { numRuns: 200 },
    );
  });
});

describe('formatPassages', () => {
  it('takes the first line as title, quotes and carriage returns included', () => {
    const passages = [{ contents: '"T"\r\na\nb' }, { contents: 'only title' }, { contents: '' }];
    expect(formatPassages(passages)).toBe('Doc 1(Title: "T"\r) a\nb\nDoc 2(Title: only title) \nDoc 3(Title: ) \n');
  });
});

describe('observation', () => {
  it('wraps the stripped passages in blank lines', () => {
    expect(observation([{ contents: '"T"\ntext \u0085' }])).toBe('\n\n<information>Doc 1(Title: "T") text</information>\n\n');
    expect(observation([])).toBe('\n\n<information></information>\n\n');
  });

  it('inserts replacement patterns, NUL and lone surrogates as they are', () => {
    expect(observation([{ contents: '$&\n$1\u0000\ud800' }])).toBe('\n\n<information>Doc 1(Title: $&) $1\u0000\ud800</information>\n\n');
  });
});
