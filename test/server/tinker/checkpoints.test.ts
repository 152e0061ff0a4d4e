import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { Checkpoints, finishReplacements, makeState, type SaveOptions } from '../../../src/server/tinker/checkpoints.ts';

const PATH = { modelId: 'session-1:train:0', kind: 'weights', name: 'last' } as const;

function options(text: string, more: Partial<SaveOptions> = {}): SaveOptions {
  return { ttlSeconds: null, overwrite: true, metadata: null, fill: (folder) => writeFile(join(folder, 'weights'), text), ...more };
}

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'vf-tinker-checkpoints-'));
}

const textIn = (folder: string) => readFileSync(join(folder, 'weights'), 'utf8');

describe('Checkpoints', () => {
  it('keeps the earlier checkpoint where the one that was to replace it cannot be written', async () => {
    const checkpoints = new Checkpoints(newFolder());
    await checkpoints.save(PATH, options('first'));
    const fill = () => Promise.reject(new Error('the disk is full'));
    await expect(checkpoints.save(PATH, options('', { fill }))).rejects.toThrow(/disk is full/);
    expect(textIn((await checkpoints.get(PATH)).folder)).toBe('first');
    const second = await checkpoints.save(PATH, options('second'));
    expect(textIn(second.folder)).toBe('second');
    expect(readdirSync(join(second.folder, '..'))).toEqual(['last']);
  });

  it('refuses a name that is taken, without overwrite, and takes it again once its time is over', async () => {
    const checkpoints = new Checkpoints(newFolder());
    await checkpoints.save(PATH, options('first', { ttlSeconds: 1 }));
    await expect(checkpoints.save(PATH, options('second', { overwrite: false }))).rejects.toMatchObject({ status: 409 });
    await expect.poll(() => checkpoints.list(PATH.modelId), { timeout: 10_000 }).toEqual([]);
    expect(textIn((await checkpoints.save(PATH, options('second', { overwrite: false }))).folder)).toBe('second');
  });
});

describe('finishReplacements', () => {
  it('puts a whole checkpoint in the place of the one that a killed server had moved away for it', async () => {
    const root = newFolder();
    const checkpoints = new Checkpoints(root);
    const { folder } = await checkpoints.save(PATH, options('newer'));
    renameSync(folder, join(folder, '..', '.newer~last'));
    expect(await checkpoints.list(PATH.modelId)).toEqual([]);
    await finishReplacements(root);
    expect(textIn((await checkpoints.get(PATH)).folder)).toBe('newer');
  });

  it('drops one whose predecessor is still there, because nobody was told of it', async () => {
    const root = newFolder();
    const checkpoints = new Checkpoints(root);
    const { folder } = await checkpoints.save(PATH, options('newer'));
    const newer = join(folder, '..', '.newer~last');
    renameSync(folder, newer);
    await checkpoints.save(PATH, options('older'));
    await finishReplacements(root);
    expect(existsSync(newer)).toBe(false);
    expect(textIn((await checkpoints.get(PATH)).folder)).toBe('older');
  });
});

describe('makeState', () => {
  it('refuses a path where a file is, as bad input', async () => {
    const path = join(newFolder(), 'file');
    await writeFile(path, '');
    await expect(makeState(path)).rejects.toThrow(ConfigError);
    await expect(makeState(path)).rejects.toThrow('Choose another folder (--state)');
  });
});
