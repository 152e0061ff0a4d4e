import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type BuildState, DenseFolder } from '../../../src/retrieval/dense/dense-folder.ts';
import type { DenseManifest } from '../../../src/retrieval/dense/dense-manifest.ts';

const module = join(import.meta.dirname, '../../../src/retrieval/dense/dense-folder.ts');
const MANIFEST: DenseManifest = {
  format: 'vf-search-dense',
  version: 1,
  model: 'm',
  dim: 2,
  metric: 'cosine',
  query_prefix: '',
  passage_prefix: '',
  embeddings_url: null,
  corpus: { name: 'corpus.jsonl', sha256: 'a'.repeat(64), bytes: 10 },
  rows: 1,
  search: { kind: 'exact' },
  bm25: false,
};
const STATE: BuildState = {
  format: MANIFEST.format,
  version: MANIFEST.version,
  model: 'm',
  dim: 2,
  query_prefix: '',
  passage_prefix: '',
  embeddings_url: null,
  corpus: 'corpus.jsonl',
  bm25: false,
  commits: [],
};

describe('DenseFolder', () => {
  let folder: DenseFolder;
  beforeEach(async () => {
    folder = new DenseFolder(mkdtempSync(join(tmpdir(), 'dense-folder-')));
    await folder.keepState(STATE);
  });
  afterEach(() => rmSync(folder.path, { recursive: true, force: true }));

  it('seals the index with its manifest', async () => {
    await folder.seal(MANIFEST);
    expect(readdirSync(folder.path)).toEqual(['manifest.json']);
    expect(folder.manifest()).toEqual(MANIFEST);
  });

  it('keeps the build unfinished where the manifest could not be written whole', () => {
    const code = `import { DenseFolder } from ${JSON.stringify(module)}; await new DenseFolder(${JSON.stringify(folder.path)}).seal(${JSON.stringify(MANIFEST)});`;
    const child = spawnSync(
      'sh',
      ['-c', 'ulimit -f 0; exec "$0" --conditions=vf-search-source --input-type=module -e "$1"', process.execPath, code],
      {
        encoding: 'utf8',
      },
    );
    expect(child.status).not.toBe(0);
    expect(folder.isComplete).toBe(false);
    expect(folder.state()).toEqual(STATE);
  });

  it('removes the files that a killed build left next to the manifest', () => {
    writeFileSync(join(folder.path, 'manifest.json.123.tmp'), '{"format":');
    folder.sweep();
    expect(readdirSync(folder.path)).toEqual(['building.json']);
  });
});
