import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cachedModel } from '../../src/data/cached-model.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const [FIRST, SECOND] = ['0'.repeat(40), 'f'.repeat(40)] as const;

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

function snapshot(commit: string, files: readonly string[] = ['config.json']): string {
  const path = `models--org--name/snapshots/${commit}`;
  mkdirSync(join(folder.path, path), { recursive: true });
  for (const file of files) folder.write(join(path, file), '{}');
  return join(folder.path, path);
}

const find = (id: string) => cachedModel(id, { HF_HUB_CACHE: folder.path });

describe('cachedModel', () => {
  it('is the revision that main names, or one that is there', () => {
    const first = snapshot(FIRST);
    expect(find('org/name')).toBe(first);
    const second = snapshot(SECOND);
    mkdirSync(join(folder.path, 'models--org--name/refs'));
    folder.write('models--org--name/refs/main', `${SECOND}\n`);
    expect(find('org/name')).toBe(second);
  });

  it('is null for a model that is not there, one without its configuration, and text that is not a hub id', () => {
    snapshot(FIRST, ['tokenizer.json']);
    for (const id of ['org/name', 'org/other', '../org/name', 'a/b/c', '', '..']) expect(find(id)).toBeNull();
  });
});
