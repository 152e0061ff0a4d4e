import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder } from '../../src/files/make-folder.ts';

describe('makeFolder', () => {
  let root = '';
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'make-folder-'));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('makes every folder of a path and leaves those that are there', () => {
    makeFolder(join(root, 'a/b/c'));
    writeFileSync(join(root, 'a/b/kept'), '');
    makeFolder(join(root, 'a/b/c'));
    makeFolder(join(root, 'a/b/d'));
    expect(['a/b/c', 'a/b/d'].map((name) => statSync(join(root, name)).isDirectory())).toEqual([true, true]);
    expect(existsSync(join(root, 'a/b/kept'))).toBe(true);
    expect(() => makeFolder('/')).not.toThrow();
  });

  it('throws where a file stands in the way', () => {
    writeFileSync(join(root, 'file'), '');
    expect(() => makeFolder(join(root, 'file'))).toThrow(/EEXIST/);
    expect(() => makeFolder(join(root, 'file/below'))).toThrow(/ENOTDIR/);
  });

  // Skipped where there is no /proc: it is the only such file system that needs no mounting.
  it.skipIf(!existsSync('/proc/self'))('throws at once where a file system accepts no folders', () => {
    expect(() => makeFolder('/proc/none/below')).toThrow(/ENOENT/);
  });
});
