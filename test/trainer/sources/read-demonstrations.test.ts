import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
];

describe('readDemonstrations', () => {
  it('reads every form of a row, skips empty lines, and keeps the order of several files', async () => {
    const [first, second] = [write([...VALID, '']), write([row(1)], 'more.jsonl')];
    const { training, validation } = await read({ data: [first, second] });
    expect(training.map((each) => each.row)).toEqual([...VALID, row(1)]);
    expect(training[4]!.place).toBe(`${first}:5`);
    expect(validation).toEqual([]);
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

  it('validates on the rows of a file of their own', async () => {
    const { training, validation } = await read({ data: write([row(1)]), validation: write([row(2)], 'validation.jsonl') });
    expect([training, validation].map((rows) => rows.map((each) => each.row))).toEqual([[row(1)], [row(2)]]);
  });

  it.each([
    ['{"prompt": "a"', /rows\.jsonl:1 is not a supervised row: text that is not JSON/],
    [{ text: 'a' }, /:1 is not a supervised row: it has none of messages, prompt and token_ids/],
    [{ prompt: 'a' }, /beside prompt it needs either segments or completion/],
    [{ prompt: 'a', completion: 'b', segments: [{ kind: 'model', text: 'b' }] }, /beside prompt it needs either segments or completion/],
    [{ prompt: '', completion: 'b' }, /prompt/],
    [{ messages: [] }, /messages/],
    [{ messages: [{ role: 'human', content: 'a' }] }, /messages\[0\]\.role must be one of "system", "user", "assistant", "tool"/],
    [{ messages: [{ role: 'assistant', content: null, tool_calls: [{}] }] }, /messages\[0\] has tool_calls; write the calls into content/],
    [{ prompt: 'a', completion: [{ role: 'assistant', content: null, tool_calls: [{}] }] }, /completion\[0\] has tool_calls/],
    [{ prompt: 'a', segments: [{ kind: 'modle', text: 'b' }] }, /segments\[0\]\.kind must be one of "model", "environment", "observation"/],
    ['[]', /rows\.jsonl:1 is not a supervised row: it must be an object/],
    [{ messages: [{ role: 'robot', content: 'a' }] }, /messages\[0\]\.role/],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, /messages\[0\]\.content/],
    [{ token_ids: [1, 2] }, /beside token_ids it needs loss_mask or weights/],
    [{ token_ids: [1, 2], loss_mask: [1] }, /loss_mask has 1 items for 2 token_ids/],
    [{ token_ids: [1, 2], weights: [1, -1] }, /weights/],
    [{ token_ids: [-1], loss_mask: [1] }, /token_ids/],
  ])('refuses %j in one line that names its place', async (line, message) => {
    await expect(read({ data: write([line]) })).rejects.toThrow(message);
    await expect(read({ data: write([line]) })).rejects.toThrow(/^[^\n]*docs\/supervised\.md[^\n]*$/);
  });

  it('refuses files that are missing or empty, and a number of held-out rows that leaves none', async () => {
    await expect(read({ data: join(folder, 'missing.jsonl') })).rejects.toThrow(/The file .*missing\.jsonl does not exist/);
    await expect(read({ data: write([]) })).rejects.toThrow(/has no supervised rows/);
    await expect(read({ data: write([row(1), row(2)]), held_out: 2 })).rejects.toThrow(/has 2 rows, and sft\.held_out = 2 leaves none to train on/);
    await expect(read({ data: write([row(1), row(2)]), held_out: 1.5 })).rejects.toThrow(/a share below 1 or a whole number of rows, got 1\.5/);
  });
});
