import { spawnSync } from 'node:child_process';
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
  const { runs: found, unread } = await findRuns(root);
  expect(found.map(({ id, kind }) => [id, kind])).toEqual([
    ['evals/a', 'evaluation'],
    ['train/b', 'training'],
  ]);
  expect(unread).toEqual([]);
  rmSync(root, { recursive: true });
});

it('names a folder that cannot be read, and lists the runs of the others', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'vf-find-runs-'));
  // The system refuses the path of the deepest folder, which only a shell can make, from folder to folder.
  const deep = spawnSync(
    'bash',
    ['-c', 'for i in $(seq 18); do n=$(printf "%0230d" $i); mkdir "$n" && cd "$n" || exit 1; [ $i -eq 8 ] && pwd; done; exit 0'],
    {
      cwd: parent,
      encoding: 'utf8',
    },
  );
  const root = deep.stdout.trim();
  mkdirSync(join(root, 'a'));
  for (const name of ['metadata.json', 'results.jsonl']) writeFileSync(join(root, 'a', name), '');
  const { runs, unread } = await findRuns(root);
  expect(runs.map(({ id }) => id)).toEqual(['a']);
  expect(unread).toEqual([expect.stringMatching(/^0+9\/[\d/]+ cannot be read, so no run in it is listed: .* \(ENAMETOOLONG\)$/)]);
  spawnSync('rm', ['-rf', parent]);
});
