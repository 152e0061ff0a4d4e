import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { doubtfulNotices } from '../../src/schemas/golden-answers.ts';
import { parseQuestion } from '../../src/schemas/question-row.ts';

describe('doubtfulNotices', () => {
  it.each(['nan', 'NaN', 'None', 'null', 'NaT', '<NA>', 'N/A', 'set()', '[]', '[Paris, Rome]', '[1.5 2.5]'])(
    'names %s as an answer that may be none',
    (answer) => {
      expect(doubtfulNotices([{ where: 'the row q7', answers: ['Paris', answer] }])).toEqual([
        `1 golden answer looks like a missing value or a list written as text: ${JSON.stringify(answer)} of the row q7. Replies are compared with that text. Correct it, unless it is the answer.`,
      ]);
    },
  );

  it('counts them, and is silent about other answers', () => {
    expect(doubtfulNotices([1, 2].map((n) => ({ where: `the row q${n}`, answers: ['None'] })))).toEqual([
      expect.stringMatching(/^2 golden answers look like .*: "None" of the row q1, \.\.\.\. Replies/),
    ]);
    expect(
      doubtfulNotices([{ where: 'the row q1', answers: ['Nantes', 'None of these', '[1, 2]', '(0, 1]', '[sic] it', 'no', 'Null Island'] }]),
    ).toEqual([]);
  });
});

describe('parseQuestion', () => {
  it('takes the first answer field that is there, and leaves further ones alone whatever they hold', () => {
    expect(parseQuestion({ question: 'q', golden_answers: ['a'], answers: { text: ['b'] }, answer: 5 })).toEqual({
      ok: true,
      question: { id: null, question: 'q', golden_answers: ['a'], data_source: null, fields: { answers: { text: ['b'] }, answer: 5 } },
    });
    expect(parseQuestion({ question: 'q', answers: { value: 5 }, answer: 'a' })).toMatchObject({ ok: false });
  });

  const golden = (row: object, columns = {}) => {
    const parsed = parseQuestion({ question: 'q', ...row }, columns);
    return parsed.ok ? parsed.question.golden_answers : parsed.problem;
  };
  const prompt = [{ role: 'user', content: 'Answer the given question. You must think. For example, <answer> Beijing </answer>. Question: Who?\n' }];
  const target = { style: 'rule', ground_truth: { target: ['Paris'] } };

  it.each([
    ['FlashRAG', { id: 'a', question: 'Who?', golden_answers: ['Paris'], metadata: {} }, 'a'],
    ['Search-R1’s Parquet', { id: 'a', question: 'Who?', golden_answers: ['Paris'], data_source: 'nq', prompt, reward_model: target }, 'a'],
    ['verl’s columns alone', { data_source: 'nq', prompt, ability: 'fact-reasoning', reward_model: target, extra_info: { index: 0 } }, null],
    ['verl’s extra_info', { id: null, extra_info: { question: 'Who?' }, reward_model: { ground_truth: 'Paris' } }, null],
    ['HotpotQA', { _id: 'a', question: 'Who?', answer: 'Paris', supporting_facts: [], context: [] }, 'a'],
    ['TriviaQA', { id: 'a', question: 'Who?', answer: { value: 'Paris', aliases: ['Paris'], normalized_aliases: ['paris'] } }, 'a'],
    ['SQuAD', { id: 'a', question: 'Who?', answers: { text: ['Paris'], answer_start: [1] } }, 'a'],
    ['PopQA', { id: 7, question: 'Who?', possible_answers: '["Paris"]' }, '7'],
    ['a file of one’s own', { query: 'Who?', expected: 'Paris' }, null],
  ])('reads the columns of %s', (_name, row, id) => {
    expect(parseQuestion(row)).toMatchObject({ ok: true, question: { id, question: 'Who?', golden_answers: ['Paris'] } });
  });

  it('reads columns of other names that are given, also inside objects and prompts', () => {
    const columns = { question: 'messages', answer: 'meta.gold', id: 'n' };
    const row = {
      n: 3,
      messages: [
        { role: 'system', content: 's' },
        { role: 'user', content: 'Who?' },
      ],
      meta: { gold: 1998 },
      answer: 'no',
      team: 'x',
    };
    expect(parseQuestion(row, { columns })).toEqual({
      ok: true,
      question: { id: '3', question: 'Who?', golden_answers: ['1998'], data_source: null, fields: { meta: { gold: 1998 }, answer: 'no', team: 'x' } },
    });
    expect(parseQuestion({ q: 'Who?', answer: 'a' }, { columns: { question: 'query' } })).toEqual({
      ok: false,
      problem: expect.stringMatching(/^expected the column "query" of columns\.question, the row has "q", "answer"\. Name the columns/),
    });
  });

  it('reads a row without golden answers where none are needed, and refuses wrong ones all the same', () => {
    expect(parseQuestion({ question: 'q' }, { needsAnswers: false })).toMatchObject({ ok: true, question: { golden_answers: [] } });
    expect(parseQuestion({ question: 'q', answer: 'a' }, { needsAnswers: false })).toMatchObject({ question: { golden_answers: ['a'] } });
    expect(parseQuestion({ question: 'q', answer: [] }, { needsAnswers: false })).toMatchObject({ ok: false });
    expect(parseQuestion({ question: 'q' })).toMatchObject({ ok: false });
  });

  it('names the columns of a row that fits none, and the setting', () => {
    const problem = 'the row has "q", "a". Name the columns, such as {"columns": {"question": "q", "answer": "a"}}';
    expect(parseQuestion({ q: 'Who?', a: 'x' })).toEqual({ ok: false, problem: `expected "question" to be text, got nothing; ${problem}` });
    expect(parseQuestion({ question: 'Who?' })).toMatchObject({ problem: expect.stringContaining('found none; the row has "question".') });
  });

  it.each([
    '["Paris", "Rome"]',
    "['Paris', 'Rome']",
    "['Paris' 'Rome']",
    "['Paris']",
    "array(['Paris'], dtype=object)",
    "('Paris', 'Rome')",
    "{'value': 'Paris'}",
    "[['Paris', 'paris']]",
    "['Paris'\n 'Rome']",
    `['Paris', "Rome's"]`,
    "[np.str_('Paris'), np.str_('Rome')]",
    "[None, 'Paris']",
    "['Paris', None]",
    '[nan]',
    "b'Paris'",
  ])('refuses the list %s, which is written as text and which no reply can equal', (text) => {
    for (const value of [text, [text], ['Paris', text]])
      expect(golden({ golden_answers: value })).toMatch(/^expected answers in "golden_answers", got a list written as text.*write a list/);
  });

  it('keeps answers that have brackets or quotes of their own', () => {
    const answers = ['[1, 2]', '(0, 1]', '"Heroes"', "[sic] it's", '{x}', "f('a')", '("Help!")', 'nan', '[]', '[1 2]', 'b'];
    expect(golden({ golden_answers: answers })).toEqual(answers);
  });

  it('turns the place of a choice into its text, and refuses what could be either', () => {
    const choices = ['Rome', 'Paris', 'Lyon'];
    expect(golden({ golden_answers: [1], choices })).toEqual(['Paris']);
    expect(golden({ answer: 2, choices: { text: choices, label: ['A', 'B', 'C'] } })).toEqual(['Lyon']);
    expect(golden({ answer: '0', metadata: { choices } })).toEqual(['Rome']);
    expect(golden({ answer: '2', choices: ['1', '2'] })).toEqual(['2']);
    expect(golden({ answer: 4, choices: [3, 4, 5] })).toEqual(['4']);
    for (const row of [
      { answer: 3, choices },
      { answer: 'E', choices },
      { answer: 2, choices: ['1', '2', '3'] },
      { answer: 1, options: { A: 'x', B: 'y' } },
      { answer: 1.5, choices },
    ])
      expect(golden(row)).toMatch(/to be the text of a choice, its label or its place among the \d choices, from 0 up, got [\d.E]+; give the text$/);
    expect(golden({ answer: 'B', choices: "['Rome', 'Paris']" })).toMatch(
      /got B and choices that are not a list; write the choices as a list of texts$/,
    );
  });

  it('reads choices and answers that begin with a letter, places such as 1.0, and spaces around a letter', () => {
    const marked = ['A)21', 'B)21.5', 'C)22'];
    for (const answer of ['B', 'B)21.5', '21.5', 1, '1.0', ' B\n']) expect(golden({ answer, choices: marked })).toEqual(['21.5']);
    const choices = ['Rome', 'Paris', 'Lyon'];
    for (const answer of ['(B) Paris', 'B. Paris', '1.0', ' B ']) expect(golden({ answer, choices })).toEqual(['Paris']);
    expect(golden({ answer: 'B. Franklin', choices })).toEqual(['B. Franklin']);
    expect(golden({ answer: '(B) Paris', choices, question: 'Which? (A) Rome (B) Paris (C) Lyon' })).toEqual(['(B) Paris']);
    expect(golden({ answer: '-1', choices })).toMatch(/among the 3 choices, from 0 up, got -1; give the text$/);
    for (const odd of [
      [
        { id: 'A', content: 'Rome' },
        { id: 'B', content: 'Paris' },
      ],
      ['Rome', null],
      [['Rome'], ['Paris']],
    ])
      expect(golden({ answer: 'B', choices: odd })).toMatch(/got B and choices that are not a list; write the choices as a list of texts$/);
  });

  it('turns the letter or the label of a choice into its text, unless the question lists the choices', () => {
    const choices = ['Rome', 'Paris', 'Lyon'];
    for (const answer of ['B', 'b', '(B)', 'B.', 'B)']) expect(golden({ answer, choices })).toEqual(['Paris']);
    expect(golden({ answer: 'B', options: { A: 'Rome', B: 'Paris' } })).toEqual(['Paris']);
    expect(golden({ answer: 'B', choices: choices.map((text, i) => ({ text, label: 'ABC'[i] })) })).toEqual(['Paris']);
    // ARC numbers some of its choices from 1.
    expect(golden({ answer: '1', choices: { text: choices, label: ['1', '2', '3'] } })).toEqual(['Rome']);
    expect(golden({ answer: 3, choices: { text: choices, label: ['1', '2', '3'] } })).toEqual(['Lyon']);
    expect(golden({ answer: 'B', choices: ['A', 'B', 'AB', 'O'] })).toEqual(['B']);
    expect(golden({ answer: 'B', choices, question: 'Which? (A) Rome (B) Paris (C) Lyon' })).toEqual(['B']);
    expect(golden({ answer: 'Bordeaux', choices })).toEqual(['Bordeaux']);
    expect(golden({ answer: 'B', choices: [] })).toEqual(['B']);
  });

  it('accepts every spelling that MuSiQue has of an answer', () => {
    expect(golden({ answer: 'Paris', answer_aliases: ['City of Light', 'Paris'] })).toEqual(['Paris', 'City of Light']);
    expect(golden({ answers: ['Paris'], answer_aliases: ['City of Light'] })).toEqual(['Paris']);
  });

  it('refuses a number that is none, takes TriviaQA’s capitals, and gives a row with a blank id none', () => {
    for (const answer of [NaN, -Infinity]) expect(golden({ answer })).toMatch(/at least one text, got (?:NaN|-Infinity), which is not a number$/);
    expect(golden({ Answer: { Value: 'Paris', Aliases: ['Paris', 'paname'] } })).toEqual(['Paris', 'paname']);
    expect(parseQuestion({ id: ' ', question: 'q', answer: 'a' })).toMatchObject({ question: { id: null } });
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
