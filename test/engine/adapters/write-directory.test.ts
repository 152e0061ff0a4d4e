import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const SOURCE = import.meta.resolve('../../../src/engine/adapters/write-directory.ts');
/** Root opens every folder: in its place, a user who has no rights but those that the test gives. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
const run = (script: string) => spawnSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', script], { ...NOBODY, encoding: 'utf8' });
const canRead = run(`await import('node:fs').then(({ accessSync }) => accessSync(${JSON.stringify(fileURLToPath(SOURCE))}))`).status === 0;

describe('writeDirectory', () => {
  it.runIf(canRead && process.platform !== 'win32')('writes even where a folder cannot be opened, as on systems that open only files', () => {
    const parent = join(folder.path, 'entered-and-written-alone');
    chmodSync(folder.path, 0o711);
    mkdirSync(parent, { mode: 0o300 });
    if (NOBODY.uid !== undefined) chownSync(parent, NOBODY.uid, NOBODY.gid);
    const directory = join(parent, 'adapter');
    const { stderr } = run(`
      const { writeDirectory } = await import(${JSON.stringify(SOURCE)});
      await writeDirectory(${JSON.stringify(directory)}, [{ name: 'a.txt', parts: [Buffer.from('whole')] }]);
    `);
    expect(stderr).toBe('');
    expect(readdirSync(directory)).toEqual(['a.txt']);
  });
});
