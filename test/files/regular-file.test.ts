import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { openRegularFile, openRegularFileSync, readRegularFile, readRegularFileSync, streamRegularFile } from '../../src/files/regular-file.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const at = (name: string) => join(folder.path, name);
writeFileSync(at('file'), 'text é');
symlinkSync(at('file'), at('link'));
symlinkSync('/dev/zero', at('device'));
mkdirSync(at('folder'));
spawnSync('mkfifo', [at('pipe')]);

/** Every way to open a path; each closes what it opened. */
const ways: Record<string, (path: string) => Promise<unknown>> = {
  openRegularFile: async (path) => (await openRegularFile(path)).close(),
  openRegularFileSync: async (path) => closeSync(openRegularFileSync(path)),
  readRegularFile,
  readRegularFileSync: async (path) => readRegularFileSync(path),
  streamRegularFile: async (path) => buffer(await streamRegularFile(path, { pieceBytes: 4 })),
};

describe.each(Object.entries(ways))('%s', (_, open) => {
  it.each([
    ['pipe', 'a pipe'],
    ['device', 'a device'],
  ])('refuses a %s at once', async (name, kind) => {
    const failed = open(at(name));
    await expect(failed).rejects.toBeInstanceOf(ConfigError);
    await expect(failed).rejects.toThrow(`${at(name)} is ${kind}; name a regular file`);
  });

  it('opens a file and a link to one, and passes on the system error for what is missing', async () => {
    for (const name of ['file', 'link']) await open(at(name));
    await expect(open(at('nothing'))).rejects.toMatchObject({ code: 'ENOENT', path: at('nothing') });
  });
});

describe('readRegularFile', () => {
  it('gives the text, and for a folder the system error', async () => {
    expect([await readRegularFile(at('link')), readRegularFileSync(at('file'))]).toEqual(['text é', 'text é']);
    await expect(readRegularFile(at('folder'))).rejects.toMatchObject({ code: 'EISDIR' });
  });
});
