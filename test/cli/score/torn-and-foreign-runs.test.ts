/** vf-score on a run whose writer was killed, and a folder that somebody else made. */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DenseFolder } from '../../../src/retrieval/dense/dense-folder.ts';
import { runInProcess } from '../in-process.ts';

let folder: string;
let run: string;

const command = (name: string, ...words: string[]) => runInProcess(name, words, { cwd: folder, env: {} });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vf-score-torn-'));
  await command('vf-eval', 'search-r1', '-n', '4', '-a', '{"dataset": "fact-world", "corpus": "fact-world"}', '-o', 'played', '--plain');
  const parent = join(folder, 'played/evals/search-r1--extractive-baseline');
  run = join(parent, readdirSync(parent)[0]!);
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true }));

describe('vf-score', () => {
  it('drops a torn last line, so that the run stays readable', { timeout: 60_000 }, async () => {
    appendFileSync(join(run, 'results.jsonl'), '{"example_id":"r3","prompt":[{"role":"us');
    expect((await command('vf-score', run, '--in-place', '--weight', 'format_valid=0.1')).code).toBe(0);
    const lines = readFileSync(join(run, 'results.jsonl'), 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => typeof (JSON.parse(line) as { reward: unknown }).reward)).toEqual(Array.from({ length: 4 }, () => 'number'));
  });
});

describe('DenseFolder', () => {
  it('replaces no folder whose manifest.json somebody else wrote', () => {
    const other = mkdtempSync(join(folder, 'other-'));
    writeFileSync(join(other, 'manifest.json'), '{"name": "an extension"}');
    expect(() => new DenseFolder(other).clear({ overwrite: true })).toThrow('is not an index of vf-index');
    expect(readdirSync(other)).toEqual(['manifest.json']);
  });
});
