import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { benchmarkServer, loadBenchmark } from '../../../src/pipelines/servers/benchmark-server.ts';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'benchmark-'))));
afterAll(() => rm(folder, { recursive: true }));

const load = (path: string, more: object = {}) =>
  loadBenchmark({ path, key_map: { q_ls: 'question', ids: 'id' }, ...more }, (name) => join(folder, name));

describe('loadBenchmark', () => {
  const QUESTIONS = ['who?', '东京', ''];

  it.each([
    ['snappy', 'SNAPPY'],
    ['uncompressed', 'UNCOMPRESSED'],
  ] as const)('reads Parquet, %s: texts, whole numbers of 64 bits, the first rows', async (name, codec) => {
    const columnData = [
      { name: 'question', data: QUESTIONS, type: 'STRING' as const },
      { name: 'id', data: [1n, 2n ** 53n - 1n, -3n], type: 'INT64' as const },
    ];
    await writeFile(join(folder, `${name}.parquet`), Buffer.from(parquetWriteBuffer({ columnData, codec })));
    expect(await load(`${name}.parquet`)).toEqual({ q_ls: QUESTIONS, ids: [1, 2 ** 53 - 1, -3] });
    expect(await load(`${name}.parquet`, { limit: 2 })).toEqual({ q_ls: QUESTIONS.slice(0, 2), ids: [1, 2 ** 53 - 1] });
  });

  it('keeps the digits of a whole number of 64 bits that JavaScript would round, as text', async () => {
    const columnData = [{ name: 'id', data: [2n ** 53n + 1n], type: 'INT64' as const }];
    await writeFile(join(folder, 'large.parquet'), Buffer.from(parquetWriteBuffer({ columnData })));
    expect(await load('large.parquet')).toEqual({ q_ls: [], ids: ['9007199254740993'] });
    await writeFile(join(folder, 'large.json'), '[{"id": 1}, {"id": [{"x": -9007199254740993}]}]');
    expect(await load('large.json')).toEqual({ q_ls: [], ids: [1, [{ x: '-9007199254740993' }]] });
    await writeFile(join(folder, 'float.jsonl'), '{"id": 1234567890123456.5, "question": "9007199254740993"}\n');
    expect(await load('float.jsonl')).toEqual({ q_ls: ['9007199254740993'], ids: [1234567890123456.5] });
  });

  it.each([
    ['torn.parquet', 'PAR1 and no more', /torn\.parquet cannot be read as Parquet: /],
    ['rows.json', '[1]', /Line 1 of \S+rows\.json is not an object, but a list\. Write one/],
    ['rows.txt', 'question\nq\n', /rows\.txt must be a \.jsonl, \.json, \.csv, \.tsv or \.parquet file$/],
    [
      'latin.jsonl',
      Buffer.from('{"question": "Wo?", "golden_answers": ["M\xfcnchen"]}\n', 'latin1'),
      /Line 1 of \S+latin\.jsonl is not UTF-8\. Convert the file to UTF-8\.$/,
    ],
    [
      'printed.jsonl',
      '{"question": "Who?", "golden_answers": "[\'Paris\' \'Rome\']"}',
      /^Line 1 of \S+: expected answers in "golden_answers", got a list written as text/,
    ],
    ['blank.csv', 'question,golden_answers\nWho?,"[""""]"\n', /^Line 2 of \S+: expected answers in "golden_answers", got a blank answer/],
    [
      'place.jsonl',
      '{"question": "Which?", "golden_answers": [4], "choices": ["Rome", "Paris"]}',
      /its label or its place among the 2 choices, from 0 up, got 4; give the text$/,
    ],
  ])('refuses %s in one line', async (name, text, message) => {
    await writeFile(join(folder, name), text);
    await expect(load(name)).rejects.toThrow(message);
  });

  it('reads a table, a byte order mark, and the places of choices as their texts', async () => {
    const key_map = { q_ls: 'question', gt_ls: 'golden_answers' };
    await writeFile(join(folder, 'table.csv'), '\ufeffquestion,golden_answers\n"Wo, bitte?","[""Paris"", ""Rom""]"\nq,7\n');
    expect(await load('table.csv', { key_map })).toEqual({ q_ls: ['Wo, bitte?', 'q'], gt_ls: [['Paris', 'Rom'], '7'] });
    await writeFile(join(folder, 'choice.jsonl'), '{"question": "Which?", "golden_answers": [1], "choices": ["Rome", "Paris"]}\n');
    expect(await load('choice.jsonl', { key_map })).toEqual({ q_ls: ['Which?'], gt_ls: [['Paris']] });
    // With the choices in the prompt, the model answers with a letter.
    await writeFile(join(folder, 'letter.jsonl'), '{"question": "Which?", "golden_answers": ["B", 1], "choices": ["Rome", "Paris"]}\n');
    expect(await load('letter.jsonl', { key_map })).toEqual({ q_ls: ['Which?'], gt_ls: [['Paris', 'Paris']] });
    const lettered = { gt_ls: 'golden_answers', choices_ls: 'choices' };
    expect(await load('letter.jsonl', { key_map: lettered })).toEqual({ gt_ls: [['B', 'B']], choices_ls: [['Rome', 'Paris']] });
  });

  it('warns of golden answers that look like missing values, and of those of which normalisation leaves nothing', async () => {
    await writeFile(
      join(folder, 'bands.jsonl'),
      '{"question": "Which band?", "golden_answers": ["The The", "The"]}\n{"question": "q", "golden_answers": "nan"}\n',
    );
    const benchmark = { path: 'bands.jsonl', key_map: { q_ls: 'question', gt_ls: 'golden_answers' } };
    const { check } = benchmarkServer({ benchmark }).tools['get_data']!;
    const lines: string[] = [];
    const context = { parameters: { benchmark }, resolve: (name: string) => join(folder, name), signal: new AbortController().signal };
    await check!({ benchmark }, { ...context, warn: (line) => void lines.push(line) });
    expect(lines).toEqual([
      expect.stringMatching(/^1 golden answer looks like a missing value or a list written as text: "nan" of gt_ls\./),
      expect.stringMatching(/^gt_ls has 2 golden answers with nothing left to compare .*, such as "The The"; acc is 1 for them/),
    ]);
  });

  it('takes a seed beyond 2^53 as text', async () => {
    await writeFile(join(folder, 'rows.json'), JSON.stringify(Array.from({ length: 17 }, (_, id) => ({ id, question: String(id) }))));
    const { ids } = await load('rows.json', { shuffle: true, seed: '369430579185310733446076371' });
    expect(ids).toEqual([0, 15, 6, 11, 3, 13, 1, 12, 10, 8, 5, 4, 2, 16, 7, 9, 14]);
  });
});
