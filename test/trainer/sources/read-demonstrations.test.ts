import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteFile } from 'hyparquet-writer';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDemonstrations } from '../../../src/trainer/sources/read-demonstrations.ts';
import { someConfig } from '../some-config.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rows-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (lines: readonly unknown[], name = 'rows.jsonl') => {
  const path = join(folder, name);
  writeFileSync(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
  return path;
};
const read = (sft: object, seed = 0) => readDemonstrations(someConfig({ sft, seed }));
const row = (i: number) => ({ prompt: `question ${i}`, completion: `answer ${i}` });

describe('readDemonstrations of other files', () => {
  it('reads a byte order mark, UTF-16, CSV and a JSON list', async () => {
    const lines = [row(0), row(1)].map((each) => `${JSON.stringify(each)}\r\n`).join('');
    const files: readonly (readonly [string, string | Buffer])[] = [
      ['marked.jsonl', `\ufeff${lines}`],
      ['utf16.jsonl', Buffer.from(`\ufeff${lines}`, 'utf16le')],
      ['rows.csv', 'prompt,completion\nquestion 0,answer 0\nquestion 1,answer 1\n'],
      ['rows.json', JSON.stringify([row(0), row(1)])],
    ];
    for (const [name, contents] of files) {
      writeFileSync(join(folder, name), contents);
      const { training } = await read({ data: join(folder, name) });
      expect(training.map((each) => each.row)).toEqual([row(0), row(1)]);
    }
  });
});

const IMAGE = { sha256: 'a'.repeat(64), media_type: 'image/png', width: 28, height: 28, offset: 0, length: 1 };
const VALID = [
  {
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b', weight: 0.5 },
    ],
  },
  {
    prompt: 'a',
    segments: [
      { kind: 'model', text: 'b' },
      { kind: 'environment', text: 'c' },
    ],
  },
  { prompt: [{ role: 'user', content: 'a' }], completion: 'b' },
  { prompt: [{ role: 'user', content: 'a' }], completion: [{ role: 'assistant', content: 'b' }] },
  { token_ids: [1, 2, 3], loss_mask: [0, 1, 1], group_id: 'g', reward: 1, example_id: 7 },
  { token_ids: [1, 2], weights: [0, 0.25], task: 'search' },
  { token_ids: [1, 2, 3], loss_mask: [0, 0, 1], images: [IMAGE] },
];

describe('readDemonstrations', () => {
  it('reads every form of a row, skips empty lines, and keeps the order of several files', async () => {
    const [first, second] = [write([...VALID, '']), write([row(1)], 'more.jsonl')];
    const { training, validation } = await read({ data: [first, second] });
    expect(training.map((each) => each.row)).toEqual([...VALID, row(1)]);
    expect(training[4]!.place).toBe(`${first}:5`);
    expect(validation).toEqual([]);
  });

  it('refuses a file without rows, and a line that is not an object', async () => {
    await expect(read({ data: write(['[]']) })).rejects.toThrow(/rows\.jsonl has no supervised rows/);
    await expect(read({ data: write(['[1]']) })).rejects.toThrow(/^Line 1 of \S+rows\.jsonl is not an object, but a list\./);
  });

  it('takes fields that are null for missing ones, mends half surrogates and keeps the digits of ids', async () => {
    const messages = [
      { role: 'user', content: 'a\ud800', tool_calls: null },
      { role: 'assistant', content: 'b', weight: null },
    ];
    const data = write([`{"example_id":9007199254740993,"prompt":null,"messages":${JSON.stringify(messages)}}`]);
    const { training } = await read({ data });
    expect(training[0]!.row).toEqual({
      example_id: '9007199254740993',
      messages: [
        { role: 'user', content: 'a\ufffd' },
        { role: 'assistant', content: 'b' },
      ],
    });
  });

  it('holds out a share or a number of rows, the same ones each time, and never trains on them', async () => {
    const data = write(Array.from({ length: 20 }, (_, i) => row(i)));
    for (const [held_out, count] of [
      [0.25, 5],
      [3, 3],
    ]) {
      const { training, validation } = await read({ data, held_out });
      expect([training.length, validation.length]).toEqual([20 - count!, count]);
      expect(new Set([...training, ...validation].map(({ place }) => place)).size).toBe(20);
      expect(await read({ data, held_out })).toEqual({ training, validation });
      expect((await read({ data, held_out }, 5)).validation).not.toEqual(validation);
    }
  });

  it.each([
    ['group_id', (i: number) => ({ ...row(i), group_id: `g${i % 10}`, example_id: i })],
    ['example_id', (i: number) => ({ ...row(i), example_id: i % 10 })],
    ['prompt', (i: number) => row(i % 10)],
    [
      'prompt of messages',
      (i: number) => ({
        messages: [
          { role: 'user', content: `${i % 10}` },
          { role: 'assistant', content: `${i}` },
        ],
      }),
    ],
    ['prompt of token ids', (i: number) => ({ token_ids: [i % 10, 11, i], loss_mask: [0, 0, 1] })],
  ])('holds out whole questions, by their %s', async (_, make) => {
    const data = write(Array.from({ length: 20 }, (_each, i) => make(i)));
    const { training, validation } = await read({ data, held_out: 5 });
    const lines = (rows: typeof training) => rows.map(({ place }) => (Number(place.split(':').at(-1)) - 1) % 10);
    expect(validation).toHaveLength(6);
    expect(lines(training).filter((question) => lines(validation).includes(question))).toEqual([]);
    await expect(read({ data: write([make(0), make(0), make(10)]), held_out: 1 })).rejects.toThrow(/all 3 rows of \S+ answer one/);
  });

  it('validates on the rows of a file of their own', async () => {
    const { training, validation } = await read({ data: write([row(1)]), validation: write([row(2)], 'validation.jsonl') });
    expect([training, validation].map((rows) => rows.map((each) => each.row))).toEqual([[row(1)], [row(2)]]);
  });

  it.each([
    ['{"prompt": "a"', /Line 1 of \S+rows\.jsonl is not valid JSON: /],
    [{ text: 'a' }, /:1 is not a supervised row: it has none of messages, prompt and token_ids/],
    [{ prompt: 'a' }, /in addition to prompt it needs either segments or completion/],
    [{ prompt: 'a', completion: 'b', segments: [{ kind: 'model', text: 'b' }] }, /in addition to prompt it needs either segments or completion/],
    [{ prompt: '', completion: 'b' }, /prompt/],
    [{ messages: [] }, /messages/],
    [{ messages: [{ role: 'human', content: 'a' }] }, /messages\[0\]\.role must be one of "system", "user", "assistant", "tool"/],
    [{ messages: [{ role: 'assistant', content: null, tool_calls: [{}] }] }, /messages\[0\] has tool_calls; write the calls into content/],
    [{ prompt: 'a', completion: [{ role: 'assistant', content: null, tool_calls: [{}] }] }, /completion\[0\] has tool_calls/],
    [{ prompt: 'a', segments: [{ kind: 'modle', text: 'b' }] }, /segments\[0\]\.kind must be one of "model", "environment", "observation"/],
    [{ messages: [{ role: 'robot', content: 'a' }] }, /messages\[0\]\.role/],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, /messages\[0\]\.content/],
    [{ token_ids: [1, 2] }, /in addition to token_ids it needs loss_mask or weights/],
    [{ token_ids: [1, 2], loss_mask: [1] }, /loss_mask has 1 items for 2 token_ids/],
    [{ token_ids: [1, 2], weights: [1, -1] }, /weights/],
    [{ token_ids: [-1], loss_mask: [1] }, /token_ids/],
    [{ token_ids: [1, 2, 3], weights: [0, 1e300, 1e300] }, /weights\[1\] must be/],
    [
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'b', weight: 2e6 },
        ],
      },
      /messages\[1\]\.weight must be/,
    ],
    [{ token_ids: [1, 2, 3], loss_mask: [0, 1, 1], weights: [0, 0, 1] }, /weights\[1\] is 0 where loss_mask\[1\] is 1; make them agree/],
    [{ token_ids: [1, 2], loss_mask: [0, 0], weights: [0, 1] }, /weights\[1\] is 1 where loss_mask\[1\] is 0; make them agree/],
    [{ messages: [{ role: 'user', content: 'a' }], prompt: 'a', completion: 'b' }, /it has both messages and prompt, which are rows of their own/],
    [{ token_ids: [1, 2], loss_mask: [0, 1], messages: [{ role: 'user', content: 'a' }] }, /it has both token_ids and messages/],
    [{ token_ids: [1, 2], loss_mask: [0, 1], images: [{ ...IMAGE, offset: 1 }] }, /images\[0\] is not among the tokens without a loss/],
    [{ token_ids: [1, 2], loss_mask: [0, 1], images: [{ ...IMAGE, length: 9 }] }, /images\[0\] is not among the tokens without a loss/],
  ])('refuses %j in one line that names its place', async (line, message) => {
    await expect(read({ data: write([line]) })).rejects.toThrow(message);
    await expect(read({ data: write([line]) })).rejects.toThrow(/^[^\n]*docs\/(supervised|data)\.md[^\n]*$/);
  });

  it('refuses files that are missing or empty, and a number of held-out rows that leaves none', async () => {
    await expect(read({ data: join(folder, 'missing.jsonl') })).rejects.toThrow(/The file .*missing\.jsonl does not exist/);
    await expect(read({ data: write([]) })).rejects.toThrow(/has no supervised rows/);
    await expect(read({ data: write([row(1), row(2)]), held_out: 2 })).rejects.toThrow(
      /^sft\.held_out = 2 leaves no row of .* to train on \(rows: 2\); lower it$/,
    );
  });
});

describe("rows of DDAI's files", () => {
  const messages = [
    { role: 'system', content: 's' },
    { role: 'user', content: 'q' },
    { role: 'assistant', content: '<think>t</think>' },
    { role: 'user', content: [{ image: 'pages/a_1.jpg' }] },
    { role: 'assistant', content: 'done', weight: 0.5 },
  ];
  const expected = { messages, example_id: 'p__s0__r' };

  it('are conversations, from JSONL with a list or its JSON as text, and from Parquet', async () => {
    const v1 = (content: unknown) => ({ uid: 'p__s0__r', format_version: 'v1', messages: content, ndcg: 1 });
    const jsonl = write([v1(messages), v1(JSON.stringify(messages))]);
    expect((await read({ data: jsonl })).training.map(({ row: found }) => found)).toEqual([expected, expected]);
    const parquet = join(folder, 'rows.parquet');
    const columns = { uid: ['p__s0__r'], format_version: ['v1'], messages: [JSON.stringify(messages)] };
    parquetWriteFile({ filename: parquet, columnData: Object.entries(columns).map(([name, data]) => ({ name, data, type: 'STRING' as const })) });
    expect((await read({ data: parquet })).training).toEqual([{ row: expected, place: `${parquet}, row 1` }]);
  });

  it.each([
    ['another version', { format_version: 'v2' }, '"format_version" must be "v1", got "v2"'],
    ['no uid', { uid: '' }, '"uid" must be the id of the row, got ""'],
    ['messages that are no JSON', { messages: '[{' }, '"messages" must be a list of messages, or its JSON as text, got "[{"'],
    [
      'messages that are nested very deeply',
      { messages: `${'['.repeat(100_000)}${']'.repeat(100_000)}` },
      '"messages" is nested more than 64 levels deep; give flatter rows',
    ],
    ['no messages', { messages: [] }, '"messages" must be a list of messages, or its JSON as text, got []'],
    ['a message of a tool', { messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].role must be system, user, assistant, got "tool"'],
    [
      'a picture without a name',
      { messages: [{ role: 'user', content: [{ url: 'x' }] }] },
      'messages[0].content[0] must be {"image": path or SHA-256} or {"text": text}, got {"url":"x"}',
    ],
    [
      'a turn with a picture',
      { messages: [{ role: 'assistant', content: [{ image: 'x' }] }] },
      'messages[0].content must be text, got [{"image":"x"}]',
    ],
    [
      'a negative weight',
      { messages: [{ role: 'assistant', content: 'x', weight: -1 }] },
      'messages[0].weight must be a number from 0 to 1000000, got -1',
    ],
  ])('with %s are refused with place, key, value and what is allowed', async (_, change, message) => {
    const path = write([{ uid: 'u', format_version: 'v1', messages, ...change }]);
    await expect(read({ data: path })).rejects.toThrow(`${path}:1 is not a supervised row: ${message} (docs/supervised.md describes the rows)`);
  });

  it('in a Parquet file with other columns are refused by the columns that it has', async () => {
    const path = join(folder, 'other.parquet');
    parquetWriteFile({ filename: path, columnData: [{ name: 'question', data: ['q'], type: 'STRING' }] });
    await expect(read({ data: path })).rejects.toThrow(
      `${path}, row 1 is not a supervised row: it has none of messages, prompt and token_ids, but question`,
    );
    writeFileSync(path, 'PAR1 torn');
    await expect(read({ data: path })).rejects.toThrow(`${path} cannot be read as Parquet`);
  });
});
