/** The functions that read and print text: upstream's behaviour is in the vectors, here are the edges and 1 MB of hostile text. */
import {
  extractAnswer,
  extractBoxed,
  extractInformation,
  extractQuery,
  formatWebPages,
  helpfulSentences,
  judgedText,
  pageOf,
  previousReasoning,
  reasoningPrompt,
  refinementPrompt,
  snippetContext,
  type WebPage,
} from 'vf-search/environments/search-o1';
import { describe, expect, it } from 'vitest';
import { PAGES, query } from './fixtures.ts';

const page = (more: Partial<WebPage>): WebPage => ({ title: 't', url: '', siteName: '', date: '', snippet: '', text: '', ...more });

describe('reasoningPrompt', () => {
  it('names the limit, asks as upstream does, and ends with the question', () => {
    const prompt = reasoningPrompt('Who?');
    expect(prompt).toContain('limited to 5.');
    expect(
      prompt.endsWith(
        'You should think step by step to solve it.\n\nProvide your final answer in the format \\boxed{YOUR_ANSWER}.\n\nQuestion:\nWho?\n\n',
      ),
    ).toBe(true);
    expect(reasoningPrompt('Who?', { instruction: 'multiqa' })).toContain('limited to 10.');
    expect(reasoningPrompt('Who?', { modelName: 'qwq' })).toContain('question. You should provide your final answer');
    expect(reasoningPrompt('Who?', { instruction: 'gpqa', modelName: 'llama', maxSearchLimit: 2 })).toMatch(
      /limited to 2\.[\s\S]*one of the letters A, B, C, or D/,
    );
  });

  it('prints a question and pages as they are, dollar signs included', () => {
    expect(reasoningPrompt('$& $1 {{x}}')).toContain('Question:\n$& $1 {{x}}\n\n');
    expect(refinementPrompt({ reasoning: '$&', query: '$1', documents: "$'" })).toContain("- **Searched Web Pages:**  \n$'\n");
  });
});

describe('previousReasoning', () => {
  it('shows four steps whole, and leaves the middle of more out, but for queries and results', () => {
    expect(previousReasoning('a\n\nb\nc\nd')).toBe('Step 1: a\n\nStep 2: b\n\nStep 3: c\n\nStep 4: d');
    const lines = ['a', 'b', query('c'), 'd', 'e', 'f', 'g', 'h'];
    expect(previousReasoning(lines.join('\n'))).toBe(
      ['Step 1: a', '...', `Step 3: ${query('c')}`, '...', 'Step 6: f', 'Step 7: g', 'Step 8: h'].join('\n\n'),
    );
  });
});

describe('pages', () => {
  it('makes a passage a page: title without its quotes, the rest as text', () => {
    expect(pageOf({ contents: '"Lima"\nCapital of Peru.' })).toEqual(page({ title: 'Lima', text: 'Capital of Peru.' }));
    expect(pageOf({ contents: 'Lima' })).toEqual(page({ title: 'Lima' }));
    expect(pageOf({ contents: '"' })).toEqual(page({ title: '"' }));
  });

  it('shows the part of a page around its snippet, else its beginning, in code points', () => {
    const text = `${'😀'.repeat(30)}. The cat sat on a mat. ${'ü'.repeat(30)}`;
    expect(snippetContext(text, 'the <cat> sat, mat', 5)).toBe('😀😀😀. The cat sat on a mat. üüüü');
    expect(snippetContext(text, 'nothing of it', 5)).toBe('😀'.repeat(10));
    expect(snippetContext('', 'x', 5)).toBe('');
  });

  it('prints JSON with upstream’s keys, numbered, without bold marks', () => {
    const printed = formatWebPages([page({ snippet: 'a <b>b</b>', siteName: 'S', date: '2024-05-01', url: 'https://x' }), page({})], {
      maxDocLen: 9,
    });
    const [, first] = printed.split('**Web Page 1:**\n');
    expect(Object.entries(JSON.parse(first!.split('**Web Page 2:**')[0]!) as object)).toEqual([
      ['id', 1],
      ['title', 't'],
      ['url', 'https://x'],
      ['site_name', 'S'],
      ['date', '2024-05-01'],
      ['snippet', 'a b'],
      ['context', ''],
    ]);
    expect(formatWebPages([])).toBe('');
  });
});

describe('the builtin refiner', () => {
  it('picks the sentences with most words of the query', () => {
    expect(helpfulSentences({ query: 'Who is the mayor of Kinzer?', pages: PAGES })).toBe('The mayor of Kinzer is Purorka.');
  });

  it('keeps three at most, in the order in which they stand, and prefers pages of a higher rank', () => {
    const pages = [page({ text: 'One red. Two. Three red fox! Four red fox? Five red fox.' }), page({ text: 'Six red fox.' })];
    expect(helpfulSentences({ query: 'red fox', pages })).toBe('Three red fox! Four red fox? Five red fox.');
    expect(helpfulSentences({ query: 'two one', pages: [page({ text: 'Two. One two. Two one.' })] })).toBe('One two. Two one.');
  });

  it('counts each word once and no stop words', () => {
    const pages = [page({ text: 'It is the fox fox fox. Red fox.' })];
    expect(helpfulSentences({ query: 'it is the red fox', pages })).toBe('Red fox.');
  });

  it.each([
    ['no pages', 'x', []],
    ['only stop words', 'the of', PAGES],
    ['no match', 'zebra', PAGES],
    ['no words', '?!', PAGES],
  ] as const)('finds nothing with %s', (_name, text, pages) => expect(helpfulSentences({ query: text, pages })).toBeNull());
});

/** A reader whose work grows with the square of the text would take hours for this. */
const SIZE = 1_000_000;
const fill = (piece: string) => piece.repeat(Math.floor(SIZE / piece.length));
const TEXTS: [string, string][] = [
  ['boxes nested 120,000 deep', `${'\\boxed{'.repeat(120_000)}x${'}'.repeat(120_000)}`],
  ['boxes never closed', fill('\\boxed{')],
  ['boxes on lines of their own, never closed', fill('\\boxed{\n')],
  ['open markers', fill('<|begin_search_query|>')],
  ['closing markers only', fill('<|end_search_query|>')],
  ['empty queries', fill('<|begin_search_query|><|end_search_query|>')],
  ['headings', fill('\n**Final Information**')],
  ['other headings', fill('\n**Modified Reasoning Steps**`')],
  ['line breaks', fill('\n')],
  ['white space', `x${fill(' \n\u0085')}x`],
  ['sentences', fill('a. ')],
  ['ends of sentences', fill('.! ?')],
  ['code fences', fill('```python')],
  ['lone surrogates and NUL', fill('\ud800\u0000')],
  ['pairs of surrogates', fill('😀')],
];

describe('1 MB of hostile text', () => {
  it.each(TEXTS)('%s are read in one pass', (name, text) => {
    expect(extractBoxed(text) === '').toBe(name !== 'boxes nested 120,000 deep');
    for (const mode of ['gen', 'choose', 'codegen'] as const) extractAnswer(text, mode);
    extractInformation(text);
    extractQuery(text);
    extractQuery(`${text}<|end_search_query|>`);
    expect(previousReasoning(text).startsWith('Step 1: ')).toBe(true);
    judgedText([{ kind: 'observation', text }], 'upstream');
    const hostile = page({ text, title: text, snippet: text });
    expect(formatWebPages([hostile, { ...hostile, snippet: 'a' }]).startsWith('**Web Page 1:**')).toBe(true);
    helpfulSentences({ query: text, pages: [hostile] });
    helpfulSentences({ query: 'a b', pages: [hostile] });
  });
});
