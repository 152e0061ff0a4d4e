/** vf-score on a run whose writer was killed, and a folder that somebody else made. */
import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DenseFolder } from '../../../src/retrieval/dense/dense-folder.ts';
import { BARE_ENVIRONMENT } from '../../bare-environment.ts';

const root = join(import.meta.dirname, '../../..');
let folder: string;
let run: string;

function command(name: string, ...words: string[]) {
  const { status, stderr } = spawnSync(process.execPath, ['--conditions=vf-search-source', join(root, `src/cli/${name}.ts`), ...words], {
    cwd: folder,
    encoding: 'utf8',
    env: BARE_ENVIRONMENT,
  });
  return { status, stderr };
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-score-torn-'));
  command('vf-eval', 'search-r1', '-n', '4', '-o', 'played', '--plain');
  const parent = join(folder, 'played/evals/search-r1--extractive-baseline');
  run = join(parent, readdirSync(parent)[0]!);
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true }));

describe('vf-score', () => {
  it('drops a torn last line, so that the run stays readable', { timeout: 60_000 }, () => {
    appendFileSync(join(run, 'results.jsonl'), '{"example_id":"r3","prompt":[{"role":"us');
    expect(command('vf-score', run, '--in-place', '--weight', 'format_valid=0.1').status).toBe(0);
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
