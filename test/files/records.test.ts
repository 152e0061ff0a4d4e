import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { type FileRecord, readRecords } from '../../src/files/records.ts';

let folder: string;
let path: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-jsonl-'));
  path = join(folder, 'rows.jsonl');
});
afterAll(() => rmSync(folder, { recursive: true }));

async function read(content: string | Uint8Array, options: { maxLineBytes?: number } = {}): Promise<[number, unknown][]> {
  writeFileSync(path, content);
  const lines: [number, unknown][] = [];
  for await (const { number, value } of readRecords(path, options)) lines.push([number, value]);
  return lines;
}

async function recordsIn(file: string): Promise<FileRecord[]> {
  const records: FileRecord[] = [];
  for await (const record of readRecords(file)) records.push(record);
  return records;
}

describe('readRecords', () => {
  it('reads values with their line numbers, with or without a last line feed', async () => {
    expect(await read('{"a":1}\n[2]\n"x"')).toEqual([
      [1, { a: 1 }],
      [2, [2]],
      [3, 'x'],
    ]);
    expect(await read('null\n')).toEqual([[1, null]]);
    expect(await read('')).toEqual([]);
  });

  it('leaves out bad lines and reports them to a listener', async () => {
    writeFileSync(path, Buffer.concat([Buffer.from('{"a":1}\n\n\n{"a":\n'), Buffer.from([0x22, 0xff, 0x22, 0x0a]), Buffer.from('2\n\n')]));
    const bad: string[] = [];
    const lines: unknown[] = [];
    for await (const { value, number } of readRecords(path, { onBadLine: (line, problem) => bad.push(`${line} ${problem}`) }))
      lines.push([number, value]);
    expect(lines).toEqual([
      [1, { a: 1 }],
      [6, 2],
    ]);
    expect(bad).toEqual(['2 it is blank', '3 it is blank', '4 it is not JSON', '5 it is not UTF-8']);
  });

  it('accepts a byte order mark, CRLF and blank lines at the end', async () => {
    expect(await read('\ufeff{"a":1}\r\n{"a":2}\r\n\r\n \n')).toEqual([
      [1, { a: 1 }],
      [2, { a: 2 }],
    ]);
  });

  it('keeps U+2028 and other separators inside a line', async () => {
    expect(await read('{"a":"x\u2028y\u0085z"}\n')).toEqual([[1, { a: 'x\u2028y\u0085z' }]]);
  });

  it.each([
    ['{"a":1}\n{"a":\n{"a":3}\n', /^Line 2 of .*rows\.jsonl is not valid JSON: /],
    ['{"a":1}\n\n{"a":3}\n', /^Line 2 of .* is blank/],
    ['{"a":1} {"b":2}\n', /^Line 1 of/],
    ['{"a":NaN}\n', /^Line 1 of/],
  ])('names file and line of %j', async (content, message) => {
    const failed = read(content);
    await expect(failed).rejects.toThrow(message);
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
  });

  it('refuses bytes that are not UTF-8 instead of replacing them', async () => {
    await expect(read(Buffer.concat([Buffer.from('{"a":1}\n"'), Buffer.from([0xff]), Buffer.from('"\n')]))).rejects.toThrow(
      /^Line 2 of .* not UTF-8/,
    );
  });

  it('bounds a line, also one without an end', async () => {
    expect(await read(`"${'x'.repeat(98)}"\n1`, { maxLineBytes: 100 })).toHaveLength(2);
    await expect(read(`1\n"${'x'.repeat(99)}"\n`, { maxLineBytes: 100 })).rejects.toThrow(/^Line 2 of .* longer than 100 bytes/);
    await expect(read(Buffer.alloc(3_000_000, 0x20), { maxLineBytes: 1_000_000 })).rejects.toThrow(/^Line 1 of .* longer/);
  });

  it('says what is not a file', async () => {
    const first = async (name: string) => readRecords(name).next();
    await expect(first(join(folder, 'none.jsonl'))).rejects.toThrow(/^The file .*none\.jsonl does not exist; correct its path$/);
    mkdirSync(join(folder, 'sub'), { recursive: true });
    await expect(first(join(folder, 'sub'))).rejects.toThrow(/is a folder; name a file in it$/);
  });

  it('stops when it is asked to', async () => {
    writeFileSync(path, '1\n2\n3\n');
    const controller = new AbortController();
    const lines = readRecords(path, { signal: controller.signal });
    expect((await lines.next()).value).toMatchObject({ number: 1, value: 1, text: '1' });
    controller.abort();
    await expect(lines.next()).rejects.toMatchObject({ name: 'CancelledError' });
  });

  it('gives back every value, however long the lines are', async () => {
    // Longer integers become text.
    const value = fc
      .oneof(fc.string({ unit: 'binary' }), fc.jsonValue(), fc.constant('é'.repeat(150_000)))
      .filter((v) => !/\d{16}/.test(JSON.stringify(v)));
    await fc.assert(
      fc.asyncProperty(fc.array(value), async (drawn) => {
        // A list of objects alone would be JSON.
        const values = [0, ...drawn];
        const lines = await read(values.map((v) => `${JSON.stringify(v)}\n`).join(''));
        expect(lines.map(([, v]) => JSON.stringify(v))).toEqual(values.map((v) => JSON.stringify(v)));
      }),
      { numRuns: 15 },
    );
  });

  const rows = [
    { id: '1', question: 'Wo liegt München?', answer: 'in Bayern, "ganz" im Süden' },
    { id: '2', question: 'q\nr', answer: '[x] ; y' },
  ];
  const csv = 'id,question,answer\r\n1,Wo liegt München?,"in Bayern, ""ganz"" im Süden"\r\n\r\n2,"q\nr",[x] ; y\r\n';
  const fileTexts: readonly (readonly [string, string])[] = [
    ['rows.jsonl', rows.map((row) => JSON.stringify(row)).join('\n')],
    ['lines.json', rows.map((row) => JSON.stringify(row)).join('\n')],
    ['list.json', JSON.stringify(rows, null, 2)],
    ['list.jsonl', JSON.stringify(rows)],
    ['table.json', JSON.stringify({ version: 1, data: rows })],
    ['columns.json', JSON.stringify({ id: ['1', '2'], question: rows.map((r) => r.question), answer: rows.map((r) => r.answer) })],
    ['rows.csv', csv],
    ['semicolons.csv', 'id;question;answer\n1;Wo liegt München?;"in Bayern, ""ganz"" im Süden"\n2;"q\nr";"[x] ; y"\n'],
    ['rows.tsv', 'id\tquestion\tanswer\n1\tWo liegt München?\t"in Bayern, ""ganz"" im Süden"\n2\t"q\nr"\t[x] ; y\n'],
  ];
  const utf16 = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le');

  it.each(fileTexts)('reads the same rows from %s, with a byte order mark, in UTF-16 and packed', async (name, text) => {
    const file = join(folder, name);
    for (const bytes of [Buffer.from(text), Buffer.from(`\ufeff${text}`), utf16(text), Buffer.from(utf16(text)).swap16()]) {
      writeFileSync(file, bytes);
      writeFileSync(`${file}.gz`, gzipSync(bytes));
      for (const each of [file, `${file}.gz`]) expect((await recordsIn(each)).map(({ value }) => value)).toEqual(rows);
    }
  });

  it('reads every group of rows of a Parquet file, and no more rows than asked for', async () => {
    const columnData = [{ name: 'n', data: [0, 1, 2, 3, 4], type: 'INT32' as const }];
    const file = join(folder, 'groups.parquet');
    writeFileSync(file, Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 2 })));
    expect((await recordsIn(file)).map(({ value, place }) => [value, place])).toEqual([0, 1, 2, 3, 4].map((n) => [{ n }, `Row ${n + 1} of ${file}`]));
    const some: unknown[] = [];
    for await (const { value } of readRecords(file, { limit: 3 })) some.push(value);
    expect(some).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
  });

  it('reads decimals, dates, times, 32-bit floats and bytes of Parquet as pyarrow prints them', async () => {
    const values = await recordsIn(join(import.meta.dirname, '../data/parquet/values.parquet'));
    expect(values.map(({ value }) => value)).toEqual([
      {
        id: '9007199254740993',
        price: '0.57',
        wide: '99999999999999999999.9900',
        small: '0.05',
        prices: ['1.10', null],
        row: { f: 0.1, d: '2024-02-29', g: { t: '01:02:03.45' } },
        rows: [{ x: '7.70', n: 1 }],
        one: [{ x: '7.70' }],
        map: { a: '1.50' },
        lists: [[0.1], []],
        float: 0.1,
        date: '2024-02-29',
        midnight: '2024-02-29',
        micros: '2024-02-29T01:02:03.678901Z',
        nanos: '2024-02-29T01:02:03.000000001Z',
        ms: '23:59:59',
        nt: '00:00:00.000000001',
        // Not UTF-8, so no text.
        bytes: { bytes: 7 },
      },
      {
        id: '-4611686018427387904',
        price: '-12.30',
        wide: null,
        small: '-0.05',
        prices: [],
        row: null,
        rows: null,
        one: [],
        map: {},
        lists: [],
        float: 16777216,
        date: '1969-12-31',
        midnight: '1969-12-31T23:59:59Z',
        micros: null,
        nanos: '1969-12-31T23:59:59.999999999Z',
        ms: '00:00:00.001',
        nt: '23:59:59.999999999',
        bytes: 'München',
      },
    ]);
  });

  it('reads CSV whose lines end in several ways, and an empty list', async () => {
    const file = join(folder, 'mixed.csv');
    writeFileSync(file, 'id,answer\r\na,x\nb,"y\r\nz"\r\nc,w\r');
    expect((await recordsIn(file)).map(({ value }) => value)).toEqual([
      { id: 'a', answer: 'x' },
      { id: 'b', answer: 'y\r\nz' },
      { id: 'c', answer: 'w' },
    ]);
    writeFileSync(join(folder, 'none.json'), '[]');
    expect(await recordsIn(join(folder, 'none.json'))).toEqual([]);
    writeFileSync(join(folder, 'gap.json'), '[{"a": 1}, null]');
    expect((await recordsIn(join(folder, 'gap.json'))).map(({ value, place }) => [value, place.slice(0, 5)])).toEqual([
      [{ a: 1 }, 'Row 1'],
      [null, 'Row 2'],
    ]);
  });

  it('refuses a Parquet file with two columns of one name', async () => {
    const columnData = ['a', 'a'].map((name) => ({ name, data: ['x'] }));
    const file = join(folder, 'twice.parquet');
    writeFileSync(file, Buffer.from(parquetWriteBuffer({ columnData })));
    await expect(recordsIn(file)).rejects.toThrow(/twice\.parquet has two columns "a"\. Rename one\.$/);
  });

  it('keeps the digits of integers beyond 2^53 as text, and mends half surrogates', async () => {
    expect(await read('{"id":9007199254740993,"n":[-12345678901234567890,9007199254740991,0.1234567890123456],"t":"a\\ud800"}')).toEqual([
      [1, { id: '9007199254740993', n: ['-12345678901234567890', 9007199254740991, 0.1234567890123456], t: 'a\ufffd' }],
    ]);
  });

  it.each([
    [
      'keys.jsonl',
      '{"b":"\\"a\\":{","a":{"b":1}}\n{"a":1,"b":2,"a" :3}',
      /^Line 2 of \S+keys\.jsonl has the key "a" twice\. Keep the one that counts\.$/,
    ],
    ['cr.jsonl', '{"a":1}\r{"a":2}\r', /^Line 1 of \S+cr\.jsonl is not valid JSON: .* Its lines end with CR alone: convert it/],
    ['book.csv', Buffer.from('PK\x03\x04\0\0'), /book\.csv is a zip archive or a workbook \(\.xlsx\)\. Unpack it, or save it as CSV in UTF-8\.$/],
    ['wide.jsonl', Buffer.from('ff fe 00 00 7b 00 00 00'.replaceAll(' ', ''), 'hex'), /wide\.jsonl is UTF-32\. Convert the file to UTF-8\.$/],
    ['short.csv', 'question,answer\na,b\nc\n', /^\S+short\.csv is not CSV: .* on line 3\. Correct that line/],
    ['long.csv', 'question,answer\na, b, c\n', /^\S+long\.csv is not CSV: .* on line 2\./],
    ['open.csv', 'question,answer\n"a,b\n', /^\S+open\.csv is not CSV: Quote Not Closed/],
    ['twice.csv', 'question,answer,answer\na,b,c\n', /names the column "answer" twice\. Rename one\.$/],
    ['rows.jsonl', 'question,answer\na,b\n', /^Line 1 of .* If it is CSV, give it the ending \.csv or \.tsv\.$/],
    ['cut.json', '[{"question": "q"},\n{"question"', /cut\.json is not valid JSON/],
    ['two.json', '{"train": [{"a": 1}], "test": [{"a": 2}]}', /has several lists of rows: train, test\./],
    ['uneven.json', '{"queries": ["a", "b"], "answers": ["c"]}', /has 2 queries but 1 answers\./],
    ['packed.jsonl', gzipSync('{"a":1}\n'), /packed\.jsonl is packed with gzip\. Give it the ending \.gz, or unpack it/],
    [
      'damaged.jsonl.gz',
      gzipSync('{"a":1}\n'.repeat(99)).subarray(0, 30),
      /Could not unpack .*damaged\.jsonl\.gz: .* The file is damaged: restore it\.$/,
    ],
    ['nomark.jsonl', Buffer.from('{"a":1}\n', 'utf16le'), /looks like UTF-16 without a byte order mark/],
    ['half.jsonl', Buffer.from('fffe7b00ff', 'hex'), /begins with the byte order mark of UTF-16, but is not UTF-16/],
    ['latin.csv', Buffer.from('question,answer\nWo?,M\xfcnchen\n', 'latin1'), /latin\.csv is not UTF-8\. Convert/],
    ['latin.json', Buffer.from('[{"question":"M\xfcnchen"}]', 'latin1'), /^Line 1 of .*latin\.json is not UTF-8\. Convert/],
  ])('refuses %s in one line that names it', async (name, bytes, message) => {
    writeFileSync(join(folder, name), bytes);
    const failed = recordsIn(join(folder, name));
    await expect(failed).rejects.toThrow(message);
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
  });
});
