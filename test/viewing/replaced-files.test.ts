import { appendFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { LineIndex } from '../../src/viewing/line-index.ts';
import { MetricFile } from '../../src/viewing/metric-file.ts';

const root = mkdtempSync(join(tmpdir(), 'replaced-files-'));
afterAll(() => rmSync(root, { recursive: true }));

/** Writes over a file that keeps its inode, as a file system does that gives the inode of a removed file to the next one. */
function writeOver(path: string, text: string): void {
  const { ino } = statSync(path);
  writeFileSync(path, text);
  expect(statSync(path).ino).toBe(ino);
}

const metric = (step: number, loss: number) => `${JSON.stringify({ kind: 'step', step, time: '2026-01-01T00:00:00.000Z', loss })}\n`;
const tokens = (id: string, text: string) => `${JSON.stringify({ rollout_id: id, text })}\n`;

describe('MetricFile', () => {
  it('reads on where the file grows, and begins again where a longer one or one of its length has taken its inode', async () => {
    const path = join(root, 'metrics.jsonl');
    writeFileSync(path, metric(1, 1) + metric(2, 2));
    const file = new MetricFile(root);
    const losses = async () => (await file.lines()).map(({ values }) => values['loss']);
    const { next } = await file.after(0);
    appendFileSync(path, metric(3, 3));
    expect((await file.after(next)).lines.map(({ step }) => step)).toEqual([3]);
    writeOver(path, metric(1, 7) + metric(2, 8) + metric(3, 9) + metric(4, 5));
    expect(await losses()).toEqual([7, 8, 9, 5]);
    expect((await file.after(next)).lines.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    writeOver(path, metric(1, 6) + metric(2, 6) + metric(3, 6) + metric(4, 6));
    expect(await losses()).toEqual([6, 6, 6, 6]);
    writeOver(path, metric(1, 1));
    expect(await losses()).toEqual([1]);
  });
});

describe('LineIndex', () => {
  it('finds the lines of a file that has taken the inode of another, longer or as long', async () => {
    const path = join(root, 'tokens.jsonl');
    writeFileSync(path, tokens('a/0', 'one') + tokens('b/0', 'two'));
    const index = new LineIndex({ directory: root, name: 'tokens.jsonl', isPacked: false });
    expect(await index.line('b/0')).toBe(tokens('b/0', 'two').trimEnd());
    appendFileSync(path, tokens('c/0', 'three'));
    expect(await index.line('c/0')).toBe(tokens('c/0', 'three').trimEnd());
    const longer = tokens('x/0', 'a longer line') + tokens('b/0', 'another') + tokens('y/0', 'and more') + tokens('z/0', 'still more');
    writeOver(path, longer);
    expect(await index.line('b/0')).toBe(tokens('b/0', 'another').trimEnd());
    expect(await index.line('a/0')).toBeNull();
    writeOver(path, longer.replaceAll('/0', '/1'));
    expect([await index.line('b/0'), await index.line('b/1')]).toEqual([null, tokens('b/1', 'another').trimEnd()]);
  });
});
