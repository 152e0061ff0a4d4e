import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keepLines, type Line, LineAppender, readLines, replaceFile } from '../../src/files/json-lines.ts';

async function linesOf(file: string): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const line of readLines(file)) lines.push(line);
  return lines;
}

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-lines-'));
  path = join(directory, 'lines.jsonl');
});
afterEach(() => rm(directory, { recursive: true }));

describe('readLines', () => {
  it('splits at line feeds and at nothing else', async () => {
    const lines = ['a\u2028b', 'c\rd', '\u{1f600}\u2029', ''];
    await writeFile(path, lines.map((l) => `${l}\n`).join(''));
    expect((await linesOf(path)).map((l) => l.text)).toEqual(lines);
  });

  it('reports a torn last line and where each line lies', async () => {
    await writeFile(path, 'één\n{"a": 1');
    const lines = await linesOf(path);
    expect(lines).toEqual([
      { text: 'één', number: 1, start: 0, end: 6, isWhole: true },
      { text: '{"a": 1', number: 2, start: 6, end: 13, isWhole: false },
    ]);
  });

  it('puts lines longer than a chunk together, characters across the edge included', async () => {
    const long = 'é'.repeat(400_001);
    await writeFile(path, `x${long}\ny\n`);
    const lines = await linesOf(path);
    expect(lines.map((l) => l.text)).toEqual([`x${long}`, 'y']);
  });
});

describe('keepLines', () => {
  it('keeps the chosen lines byte for byte and ends the last one', async () => {
    await writeFile(path, 'one\ntwo\nthrée');
    const lines: Line[] = await linesOf(path);
    await keepLines(path, [lines[0]!, lines[2]!]);
    expect(await readFile(path, 'utf8')).toBe('one\nthrée\n');
    expect(await readdir(directory)).toEqual(['lines.jsonl']);
  });
});

describe('replaceFile', () => {
  it('leaves the old file when the new one fails half way', async () => {
    await writeFile(path, 'old\n');
    const attempt = replaceFile(path, async (write) => {
      await write(Buffer.from('ne'));
      throw new Error('no more');
    });
    await expect(attempt).rejects.toThrow('no more');
    expect(await readFile(path, 'utf8')).toBe('old\n');
    expect(await readdir(directory)).toEqual(['lines.jsonl']);
  });
});

describe('LineAppender', () => {
  it.each([
    ['removed', () => rm(path), /lines\.jsonl was removed or renamed while this process wrote to it/],
    ['put in a folder of another name', async () => rename(directory, `${directory}-moved`).then(() => mkdir(directory)), /removed or renamed/],
    ['replaced', async () => replaceFile(path, (write) => write(Buffer.from('else\n'))), /lines\.jsonl was replaced while/],
  ])('loses no line in a file that was %s', async (_, change, problem) => {
    const file = await LineAppender.open(path);
    file.append(['one']);
    await change();
    expect(() => file.append(['two'])).toThrow(problem);
    expect(() => file.appendPieces(['two'])).toThrow(problem);
    await expect(file.close()).rejects.toThrow(problem);
    await rm(`${directory}-moved`, { recursive: true, force: true });
  });

  it('has written a line once append has returned', async () => {
    const file = await LineAppender.open(path);
    file.append(['one', 'two']);
    file.append(['three']);
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\nthree\n');
    await file.close();
  });

  it('says that the disk is full, then and at every later call', async () => {
    const file = await LineAppender.open('/dev/full');
    const full = /\/dev\/full: the disk is full\. Free some space and resume the run/;
    expect(() => file.append(['one'])).toThrow(full);
    expect(() => file.append(['two'])).toThrow(full);
    await expect(file.close()).rejects.toThrow(full);
  });

  // Only Linux has the signal's name in its shell and counts the limit in these blocks.
  it.runIf(process.platform === 'linux')('takes back what was written of a line that did not fit', async () => {
    const module = JSON.stringify(new URL('../../src/files/json-lines.ts', import.meta.url).href);
    const program = `
      const { LineAppender } = await import(${module});
      const file = await LineAppender.open(${JSON.stringify(path)});
      file.append(['one']);
      try { file.append(['x'.repeat(10_000)]); } catch (error) { console.log(error.name); }
      try { file.appendPieces(['two']); } catch (error) { console.log(error.name); }
    `;
    // The file may grow to 8 blocks of 512 bytes, or of 1,024 in some shells.
    const limited = `trap '' XFSZ; ulimit -f 8; exec "$0" --input-type=module --no-warnings -e "$1"`;
    expect(execFileSync('sh', ['-c', limited, process.execPath, program], { encoding: 'utf8' })).toBe('ResultsError\nResultsError\n');
    expect(await readFile(path, 'utf8')).toBe('one\n');
  });

  it('says which file it cannot open', async () => {
    await expect(LineAppender.open(join(directory, 'missing', 'x'))).rejects.toThrow(
      /Could not write .*missing\/x: no such file or directory \(ENOENT\)/,
    );
  });
});
