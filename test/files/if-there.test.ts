import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { ifThere, namesIn } from '../../src/files/if-there.ts';
import { readRegularFile } from '../../src/files/regular-file.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-there-'));
  writeFileSync(join(folder, 'file'), 'text');
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('ifThere', () => {
  it('reads what is there, and is null where nothing is', async () => {
    expect(await ifThere(join(folder, 'file'), readRegularFile)).toBe('text');
    expect(await ifThere(join(folder, 'none'), readRegularFile)).toBeNull();
  });

  it('refuses by name what is there and cannot be read', async () => {
    mkdirSync(join(folder, 'folder'));
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    await expect(ifThere(join(folder, 'folder'), readRegularFile)).rejects.toThrow(/^Cannot read \S+folder: it is a folder$/);
    await expect(ifThere(join(folder, 'file/below'), readRegularFile)).rejects.toThrow(/ENOTDIR/);
    await expect(ifThere(join(folder, 'pipe'), readRegularFile)).rejects.toThrow(ConfigError);
  });
});

describe('namesIn', () => {
  it('has the names of a folder, and none of one that does not exist', async () => {
    expect(await namesIn(folder)).toEqual(['file']);
    expect(await namesIn(join(folder, 'none'))).toEqual([]);
  });
});
