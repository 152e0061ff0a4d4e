import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { readJsonl } from '../../src/data/jsonl.ts';

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
  for await (const { line, value } of readJsonl(path, options)) lines.push([line, value]);
  return lines;
}

describe('readJsonl', () => {
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
    for await (const { value, line } of readJsonl(path, { onBadLine: (number, problem) => bad.push(`${number} ${problem}`) }))
      lines.push([line, value]);
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
    const first = async (name: string) => readJsonl(name).next();
    await expect(first(join(folder, 'none.jsonl'))).rejects.toThrow(/^The file .*none\.jsonl does not exist; correct its path$/);
    mkdirSync(join(folder, 'sub'), { recursive: true });
    await expect(first(join(folder, 'sub'))).rejects.toThrow(/is a folder, not a file$/);
  });

  it('stops when it is asked to', async () => {
    writeFileSync(path, '1\n2\n3\n');
    const controller = new AbortController();
    const lines = readJsonl(path, { signal: controller.signal });
    expect((await lines.next()).value).toEqual({ line: 1, value: 1 });
    controller.abort();
    await expect(lines.next()).rejects.toMatchObject({ name: 'CancelledError' });
  });

  it('gives back every value, however long the lines are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue(), fc.constant('é'.repeat(150_000)))), async (values) => {
        const lines = await read(values.map((v) => `${JSON.stringify(v)}\n`).join(''));
        expect(lines.map(([, v]) => JSON.stringify(v))).toEqual(values.map((v) => JSON.stringify(v)));
      }),
      { numRuns: 40 },
    );
  });
});
