import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ResultsError } from '../../../src/core/errors.ts';
import { AppendFile } from '../../../src/trainer/curves/append-file.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-append-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('AppendFile', () => {
  it('has each record on file at once, in folders that it creates', () => {
    const path = join(folder, 'a/b/file');
    const file = new AppendFile(path);
    for (const text of ['one', 'two']) {
      file.append(Buffer.from(text));
      expect(readFileSync(path, 'utf8')).toBe(text === 'one' ? 'one' : 'onetwo');
    }
    expect(file.bytes).toBe(6);
    file.close();
  });

  it('never writes into a file that exists', () => {
    const path = join(folder, 'file');
    new AppendFile(path).close();
    expect(() => new AppendFile(path)).toThrow(ResultsError);
  });

  // Windows has no limit of this kind.
  it.skipIf(process.platform === 'win32')('keeps only whole records where a file can grow no further', () => {
    const path = join(folder, 'file');
    const script = `
      import { AppendFile } from ${JSON.stringify(new URL('../../../src/trainer/curves/append-file.ts', import.meta.url).href)};
      const file = new AppendFile(${JSON.stringify(path)});
      try { for (;;) file.append(Buffer.alloc(300, 'x')); } catch (error) { process.stdout.write(error.name); }`;
    const limited = 'ulimit -f 1 && exec "$0" --no-warnings --conditions=vf-search-source --input-type=module -e "$1"';
    const { stdout } = spawnSync('sh', ['-c', limited, process.execPath, script], { encoding: 'utf8' });
    expect(stdout).toBe('ResultsError');
    const { length } = readFileSync(path);
    expect([length > 0, length % 300]).toEqual([true, 0]);
  });
});
