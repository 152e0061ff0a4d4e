import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { findRuns } from '../../src/viewing/find-runs.ts';

it('finds the runs of a folder at any level, and looks into none of them, into no hidden folder, and not into node_modules', async () => {
  const root = mkdtempSync(join(tmpdir(), 'vf-find-runs-'));
  const put = (folder: string, ...files: readonly string[]) => {
    mkdirSync(join(root, folder), { recursive: true });
    for (const file of files) writeFileSync(join(root, folder, file), '');
  };
  put('evals/a', 'metadata.json', 'results.jsonl');
  put('train/b', 'run.json', 'config.toml');
  for (const inner of ['train/b/evals/c', '.hidden/d', 'node_modules/e']) put(inner, 'metadata.json', 'results.jsonl');
  put('half', 'metadata.json');
  const found = await findRuns(root);
  expect(found.map(({ id, kind }) => [id, kind])).toEqual([
    ['evals/a', 'evaluation'],
    ['train/b', 'training'],
  ]);
  rmSync(root, { recursive: true });
});
