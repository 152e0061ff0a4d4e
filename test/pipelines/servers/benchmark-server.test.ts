import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadBenchmark } from '../../../src/pipelines/servers/benchmark-server.ts';

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

  it('refuses a whole number of 64 bits that JavaScript would round, from Parquet and JSON', async () => {
    const columnData = [{ name: 'id', data: [2n ** 53n + 1n], type: 'INT64' as const }];
    await writeFile(join(folder, 'large.parquet'), Buffer.from(parquetWriteBuffer({ columnData })));
    await expect(load('large.parquet')).rejects.toThrow(/row 1 has the integer 9007199254740993, which is beyond 2\^53; store it as text$/);
    await writeFile(join(folder, 'large.json'), '[{"id": 1}, {"id": [{"x": -9007199254740993}]}]');
    await expect(load('large.json')).rejects.toThrow('has the integer -9007199254740993, which is beyond 2^53');
    await writeFile(join(folder, 'float.jsonl'), '{"id": 1234567890123456.5, "question": "9007199254740993"}\n');
    expect(await load('float.jsonl')).toEqual({ q_ls: ['9007199254740993'], ids: [1234567890123456.5] });
  });

  it.each([
    ['torn.parquet', 'PAR1 and no more', /torn\.parquet cannot be read as Parquet: /],
    ['object.json', '{"question": 1}', /object\.json must be a list of rows, got an object$/],
    ['rows.json', '[1]', /rows\.json, row 1 must be an object, got a number$/],
    ['table.csv', 'question\nq\n', /table\.csv must be a \.jsonl, \.json or \.parquet file$/],
  ])('refuses %s in one line', async (name, text, message) => {
    await writeFile(join(folder, name), text);
    await expect(load(name)).rejects.toThrow(message);
  });

  it('takes a seed beyond 2^53 as text', async () => {
    await writeFile(join(folder, 'rows.json'), JSON.stringify(Array.from({ length: 17 }, (_, id) => ({ id, question: String(id) }))));
    const { ids } = await load('rows.json', { shuffle: true, seed: '369430579185310733446076371' });
    expect(ids).toEqual([0, 15, 6, 11, 3, 13, 1, 12, 10, 8, 5, 4, 2, 16, 7, 9, 14]);
  });
});
