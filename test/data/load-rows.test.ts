import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { loadRows, type LoadRowsOptions } from '../../src/data/load-rows.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rows-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

async function loadFile(lines: readonly unknown[], options: Partial<LoadRowsOptions> = {}) {
  const path = join(folder, 'mine.jsonl');
  writeFileSync(path, lines.map((l) => (typeof l === 'string' ? l : JSON.stringify(l))).join('\n'));
  return loadRows({ dataset: path, ...options });
}

describe('loadRows', () => {
  it('loads every bundled split with the counts that the manifest names', async () => {
    for (const [dataset, split, count] of [
      ['nq-mini', 'test', 500],
      ['nq-mini', 'train', 1500],
      ['nq-mini', 'extra', 174],
      ['fact-world', 'test', 240],
      ['fact-world', 'train', 1440],
    ] as const) {
      const { rows, provenance } = await loadRows({ dataset, split });
      expect(rows).toHaveLength(count);
      expect(new Set(rows.map((r) => r.id)).size).toBe(count);
      expect(rows.map((r) => r.index)).toEqual(rows.map((_, i) => i));
      expect(new Set(rows.map((r) => r.split))).toEqual(new Set([split === 'test' ? 'test' : 'train']));
      expect(provenance).toMatchObject({ dataset, split, rows: count, sources: [{ name: dataset, kind: 'bundled', rows: count }] });
      expect(provenance.sources[0]!.sha256).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  it('takes the test split when none is named, and the first rows when limited', async () => {
    const { rows } = await loadRows({ dataset: 'nq-mini', limit: 2 });
    expect(rows).toEqual([
      {
        id: 'nq_dev_0012',
        question: 'where did the last name wallace come from',
        golden_answers: ['a Scottish surname'],
        data_source: 'nq-mini',
        index: 0,
        split: 'test',
      },
      expect.objectContaining({ id: 'nq_dev_0013', golden_answers: ['Michael Moriarty'], index: 1 }),
    ]);
  });

  it('shares no question between train and test', async () => {
    for (const dataset of ['nq-mini', 'fact-world']) {
      const [train, test] = await Promise.all(['train', 'test'].map((split) => loadRows({ dataset, split })));
      const asked = new Set(train!.rows.map((r) => r.question));
      expect(test!.rows.filter((r) => asked.has(r.question))).toEqual([]);
    }
  });

  it('reads hand-written files: answer, answers or golden_answers, text or list, own fields kept', async () => {
    const { rows, provenance } = await loadFile([
      { id: 7, question: 'a', answer: 'x', metadata: { hop: 2 } },
      { question: ' b ', answers: ['y', 'z'] },
      { id: 'c', question: 'c', golden_answers: 'w', data_source: 'nq', split: 'dev', index: 99 },
    ]);
    expect(rows).toEqual([
      { id: '7', question: 'a', golden_answers: ['x'], data_source: 'mine', index: 0, split: 'test', metadata: { hop: 2 } },
      { id: 'test_1', question: ' b ', golden_answers: ['y', 'z'], data_source: 'mine', index: 1, split: 'test' },
      { id: 'c', question: 'c', golden_answers: ['w'], data_source: 'nq', index: 2, split: 'test' },
    ]);
    expect(provenance.sources).toEqual([{ name: 'mine', kind: 'file', file: join(folder, 'mine.jsonl'), rows: 3, sha256: expect.any(String) }]);
  });

  it('gives repeated ids a number, also thousands of them', async () => {
    const repeated = await loadFile(['a', 'a', 'a#2', 'a', 'b'].map((id) => ({ id, question: 'q', answer: 'x' })));
    expect(repeated.rows.map((r) => r.id)).toEqual(['a', 'a#3', 'a#2', 'a#4', 'b']);
    expect(repeated.notices).toEqual(['2 rows have the id of an earlier row, such as "a": results call the second "a#3". Give each row its own id.']);
    const many = await loadFile(Array.from({ length: 20_000 }, () => ({ id: 'x', question: 'q', answer: 'x' })));
    expect(new Set(many.rows.map((r) => r.id)).size).toBe(20_000);
  });

  it.each([
    [{ question: '  \n', answer: 'x' }, 'expected a question, got a blank one'],
    [{ question: '', answer: 'x' }, 'expected a question, got a blank one'],
    [{ question: 5, answer: 'x' }, 'expected "question" to be text, got a number'],
    [{ answer: 'x' }, 'expected "question" to be text, got nothing'],
    [{ question: 'q' }, 'expected "golden_answers", "answers" or "answer", found none'],
    [{ question: 'q', golden_answers: [] }, 'expected "golden_answers" to be text or a list of at least one text, got an empty list'],
    [{ question: 'q', answer: [true] }, 'expected "answer" to be text or a list of at least one text, got a list with something else in it'],
    [{ question: 'q', answer: 'x', id: 1.5 }, 'expected "id" to be text or an integer, got a number'],
    [['q', 'a'], 'expected an object such as'],
    [null, 'expected an object such as'],
  ])('refuses %j and names its line', async (bad, problem) => {
    const failed = loadFile([{ question: 'fine', answer: 'x' }, bad]);
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
    await expect(failed).rejects.toThrow(`Line 2 of ${join(folder, 'mine.jsonl')}: ${problem}`);
  });

  it.each([
    ['searchr1', 'nq', ['test_0']],
    ['flashrag', 'flashrag', ['test_0']],
    ['large', 'large', ['a', 'b']],
  ])('reads the Parquet file %s', async (name, source, ids) => {
    const { rows } = await loadRows({ dataset: join(import.meta.dirname, `parquet/${name}.parquet`) });
    expect(rows.map((row) => row.id)).toEqual(ids);
    expect(rows[0]).toMatchObject({ question: 'What is the capital of France?', golden_answers: ['Paris'], data_source: source });
    expect((await loadRows({ dataset: join(import.meta.dirname, `parquet/${name}.parquet`), limit: 1 })).rows).toHaveLength(1);
  });

  const row = (fields: string) => `{"question":"Who?",${fields}}`;
  it.each([
    [
      'a list in a string',
      row(String.raw`"golden_answers":"[\"Paris\", \"Rome\"]"`),
      /^Line 1 of \S+: expected answers in "golden_answers", got a list written as text/,
    ],
    ['a list as Python prints it', row(`"golden_answers":"['Paris', 'Rome']"`), /got a list written as text/],
    ['a list as numpy prints it', row(`"golden_answers":["['Paris' 'Rome']"]`), /got a list written as text/],
    ['a truth value', row('"answer":true'), /expected "answer" to be text or a list of at least one text, got a boolean/],
    ['a blank answer among others', row('"golden_answers":["","Paris"]'), /got a blank answer/],
    ['a list in a list', row('"golden_answers":[["Paris","paris"]]'), /got a list with something else in it/],
    ['NaN', '{"id":"x","question":"A?","golden_answers":["a"],"score":NaN}', /^Line 1 of \S+ is not valid JSON/],
    ['two rows in a line', `${row('"answer":"a"')}${row('"answer":"b"')}`, /^Line 1 of \S+ is not valid JSON/],
  ])('refuses %s in one line', async (_name, line, message) => {
    await expect(loadFile([line])).rejects.toThrow(message);
  });

  it.each([
    [
      'ids beyond 2^53',
      '{"id":9007199254740993,"question":"A?","answer":"a"}\n{"id":9007199254740992,"question":"B?","answer":"b"}',
      ['9007199254740993', '9007199254740992'],
      ['a'],
    ],
    ['numbers as answers', row('"golden_answers":[1998, "two"]'), ['test_0'], ['1998', 'two']],
    ['null before an answer', row('"id":null,"golden_answers":null,"answer":"Paris"'), ['test_0'], ['Paris']],
    ['a list of rows', `[${row('"id":"x","answer":"a"')},${row('"_id":"y","answer":"a"')}]`, ['x', 'y'], ['a']],
    ['TriviaQA’s answers', row('"golden_answers":{"value":"Paris","aliases":["Paris","City of Light"]}'), ['test_0'], ['Paris', 'City of Light']],
    ['half a surrogate', row(String.raw`"answer":"a\ud800"`), ['test_0'], ['a\ufffd']],
    ['another name of the question', '{"id":"x","query":"A?","golden_answers":["a"]}', ['x'], ['a']],
  ])('reads %s', async (_name, text, ids, golden) => {
    const { rows } = await loadFile([text]);
    expect([rows.map(({ id }) => id), rows[0]!.golden_answers]).toEqual([ids, golden]);
  });

  it('reads the columns that are named, and refuses unknown keys of columns', async () => {
    const { rows } = await loadFile([{ q: 'Who?', gold: { short: 'x' }, n: 4, team: 'a' }], {
      columns: { question: 'q', answer: 'gold.short', id: 'n' },
    });
    expect(rows[0]).toEqual({
      id: '4',
      question: 'Who?',
      golden_answers: ['x'],
      data_source: 'mine',
      index: 0,
      split: 'test',
      gold: { short: 'x' },
      team: 'a',
    });
    await expect(loadFile([], { columns: { query: 'q' } as object })).rejects.toThrow(/columns has no option query.* it has question, answer, id/);
  });

  it('gives the row of a table whose id is blank a number, also with a column that is named', async () => {
    const file = join(folder, 'blank.csv');
    writeFileSync(file, 'nr,question,answer\n7,q,x\n,r,y\n');
    const { rows } = await loadRows({ dataset: file, columns: { id: 'nr' } });
    expect(rows.map(({ id }) => id)).toEqual(['7', 'test_1']);
    await expect(loadRows({ dataset: file, columns: { id: 'no' } })).rejects.toThrow(/^Line 2 of \S+: expected the column "no" of columns\.id/);
  });

  it('takes only own fields, whatever their names', async () => {
    const { rows } = await loadFile(['{"question":"q","answer":"x","__proto__":{"polluted":true},"constructor":1}']);
    expect(Object.getPrototypeOf(rows[0])).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('says what is known when a name is not', async () => {
    const failed = loadRows({ dataset: 'natural-questions' });
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
    await expect(failed).rejects.toThrow(/"natural-questions".* nq-mini, fact-world, rule-lookup \(bundled\), nq, triviaqa, .*bamboogle .*org\/name/);
    await expect(loadRows({ dataset: 'constructor' })).rejects.toThrow(/^The data set "constructor" does not exist/);
    await expect(loadRows({ dataset: 'nq-mini', split: 'dev' })).rejects.toThrow(
      'The data set nq-mini has no split "dev". Choose train, test, extra.',
    );
    await expect(loadRows({ dataset: join(folder, 'none.jsonl') })).rejects.toThrow(/^The file .*none\.jsonl does not exist; correct its path$/);
    await expect(loadRows({ dataset: 'nq-mini,,nq' })).rejects.toThrow('contains an empty data set name');
    await expect(loadRows({ dataset: 'nq-mini,nq-mini' })).rejects.toThrow('The data set nq-mini is named twice');
    await expect(loadRows({ dataset: 'nq-mini', limit: 0 })).rejects.toThrow('limit must be an integer of at least 1, got 0');
    await expect(loadFile([])).rejects.toThrow(/^\S+\.jsonl contains no questions\.$/);
  });

  it('merges bundled sets under ids that cannot collide', async () => {
    const { rows } = await loadRows({ dataset: 'nq-mini, fact-world', limit: 501 });
    expect([rows[0]!.id, rows[500]!.id, rows[500]!.index]).toEqual(['nq-mini/nq_dev_0012', 'fact-world/fw_211_mayor_h', 0]);
  });

  it('opens a file whose name holds a comma', async () => {
    const path = join(folder, 'a,b.jsonl');
    writeFileSync(path, readFileSync(join(import.meta.dirname, '../../datasets/fact-world/heldout.jsonl')));
    expect((await loadRows({ dataset: path })).rows).toHaveLength(240);
  });
});
