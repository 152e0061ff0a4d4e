import { mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { placeError, readingError } from '../../src/files/place-error.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

/** What the system itself refuses with. */
function refused(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

describe('placeError', () => {
  it('blames the flag when a folder cannot be made, and leaves any other error as it was', () => {
    using folder = new TemporaryFolder();
    const error = refused(() => mkdirSync(join(folder.write('file', ''), 'below')));
    const placed = placeError(error, { flag: '-o', path: 'file/below' });
    expect(placed).toBeInstanceOf(ConfigError);
    expect((placed as Error).message).toBe('Cannot create the folder file/below (-o): not a directory (ENOTDIR)');
    const others = [
      new Error('x'),
      'x',
      refused(() => openSync(join(folder.path, 'nothere'), 'r')),
      Object.assign(new Error('x'), { errno: -28, code: 'ENOSPC', syscall: 'mkdir' }),
    ];
    for (const other of others) expect(placeError(other, { flag: '-o', path: 'x' })).toBe(other);
  });
});

describe('readingError', () => {
  it('blames the path when the named file cannot be read, and leaves an error about another file as it was', () => {
    using folder = new TemporaryFolder();
    const path = join(folder.path, 'nothere');
    const error = refused(() => openSync(path, 'r'));
    const placed = readingError(error, { what: 'the corpus', path });
    expect(placed).toBeInstanceOf(ConfigError);
    expect((placed as Error).message).toBe(`Cannot read the corpus ${path}: no such file or directory (ENOENT)`);
    expect(readingError(error, { what: 'the corpus', path: folder.path })).toBe(error);
    expect(readingError(error, { what: 'the corpus', path: undefined })).toBe(error);
  });
});
