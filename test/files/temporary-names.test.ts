import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeDirectory } from '../../src/engine/adapters/write-directory.ts';
import { replaceFile } from '../../src/files/json-lines.ts';
import { removeLeftOvers } from '../../src/files/temporary-names.ts';
import { writeFolder } from '../../src/files/write-folder.ts';
import { buildIndexFolder } from '../../src/retrieval/bm25/build-index-folder.ts';
import { writeEnvironment } from '../../src/templates/write-environment.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

/** The id of a process that has ended. */
const dead = spawnSync(process.execPath, ['-e', '']).pid;
const corpus = (folder: string): string => {
  writeFileSync(join(folder, 'c.jsonl'), '{"id":"1","contents":"a b"}\n');
  return join(folder, 'c.jsonl');
};

/** Each writes `thing` into the folder. */
const WRITERS: readonly (readonly [string, string, (folder: string) => unknown])[] = [
  ['a file that is replaced', 'thing.DEAD.tmp', (folder) => replaceFile(join(folder, 'thing'), async (write) => write(Buffer.from('x')))],
  ['a folder', 'thing.DEAD.tmp', (folder) => writeFolder(join(folder, 'thing'), async () => {})],
  ['an adapter', '.thing.DEAD.tmp', (folder) => writeDirectory(join(folder, 'thing'), [])],
  ['a BM25 index', '.thing.DEAD.tmp-aB3xYz', (folder) => buildIndexFolder({ corpus: corpus(folder), target: join(folder, 'thing') })],
  ['an environment', '.thing.DEAD.tmp-aB3xYz', (folder) => writeEnvironment({ id: 'thing', directory: folder, kind: 'tags' })],
];

describe('a process that was killed while it wrote', () => {
  it.each(WRITERS)('%s leaves nothing that the next one to write it does not remove', async (_, name, write) => {
    using folder = new TemporaryFolder();
    const named = (pid: number | undefined, of = 'thing') => name.replace('DEAD', String(pid)).replace('thing', of);
    const kept = [named(process.ppid), named(dead, 'another'), named(dead, 'thing.2'), 'thing.tmp', `thing.${dead}.txt`];
    for (const each of [named(dead), ...kept]) {
      mkdirSync(join(folder.path, each));
      writeFileSync(join(folder.path, each, 'half'), '');
    }
    await write(folder.path);
    expect(readdirSync(folder.path).toSorted()).toEqual(expect.arrayContaining(kept));
    expect(existsSync(join(folder.path, named(dead)))).toBe(false);
    expect(existsSync(join(folder.path, 'thing'))).toBe(true);
  });
});

describe('removeLeftOvers', () => {
  it('waits where processes of other machines may write, and leaves what this process is writing', () => {
    using folder = new TemporaryFolder();
    const [fresh, old, own] = [`blob.${dead}.tmp-aaaaaa`, `blob.${dead}.tmp-bbbbbb`, `blob.${process.pid}.tmp-cccccc`];
    for (const each of [fresh, old, own]) mkdirSync(join(folder.path, each));
    utimesSync(join(folder.path, old), 1, 1);
    removeLeftOvers(join(folder.path, 'blob'), { restMs: 86_400_000 });
    expect(readdirSync(folder.path).toSorted()).toEqual([fresh, own].toSorted());
    removeLeftOvers(join(folder.path, 'blob'));
    expect(readdirSync(folder.path)).toEqual([own]);
  });
});
