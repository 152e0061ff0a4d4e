import { constants } from 'node:buffer';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunkedLines, jsonPieces, LineAppender } from '../../src/files/json-lines.ts';

describe('jsonPieces', () => {
  it('are the JSON of the table, {for any table}', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (table) => {
        expect([...jsonPieces(table)].join('')).toBe(JSON.stringify(table));
      }),
    );
    expect([...jsonPieces({ a: undefined, b: [undefined] })].join('')).toBe('{"b":[null]}');
  });
});

describe('chunkedLines', () => {
  it('are the lines, each with its line feed, {for any lines}', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), (lines) => {
        expect(Buffer.concat([...chunkedLines(lines)])).toEqual(Buffer.from(lines.map((line) => `${line}\n`).join('')));
      }),
    );
  });

  it('are longer together than a string can be', () => {
    const lines = Array<string>(8192).fill('x'.repeat(2 ** 16));
    let bytes = 0;
    for (const piece of chunkedLines(lines)) bytes += piece.length;
    expect(bytes).toBe(8192 * (2 ** 16 + 1));
    expect(bytes).toBeGreaterThan(constants.MAX_STRING_LENGTH);
  });
});

describe('LineAppender', () => {
  it('writes a line that is given in pieces as one, between others', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'pieces-'));
    try {
      const lines = await LineAppender.open(join(folder, 'a.jsonl'));
      const long = Array.from({ length: 50_000 }, (_, i) => `${i} 東京`);
      lines.append(['"before"']);
      lines.appendPieces(jsonPieces({ long }));
      lines.append(['"after"']);
      await lines.close();
      expect(await readFile(join(folder, 'a.jsonl'), 'utf8')).toBe(`"before"\n${JSON.stringify({ long })}\n"after"\n`);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
