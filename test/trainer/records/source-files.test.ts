import { appendFile, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ResultsError } from '../../../src/core/errors.ts';
import { SourceFiles, sourceFiles, type SourceFilesOptions, type SourceRows } from '../../../src/trainer/records/source-files.ts';

let parent: string;
let directory: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-source-files-'));
  directory = join(parent, 'source');
});
afterEach(() => rm(parent, { recursive: true }));

/** One process's life: opens the files of a run that is at step `through`, and takes these steps. */
async function life(through: number, steps: Readonly<Record<number, SourceRows>>, options: Partial<SourceFilesOptions> = {}): Promise<void> {
  await using files = await SourceFiles.open(directory, { through, ...options });
  for (const [step, rows] of Object.entries(steps)) await files.append(Number(step), rows);
}
const textOf = (name: string) => readFile(join(directory, name), 'utf8');

describe('SourceFiles', () => {
  it('writes a line for a row, with its step, into the file of its name', async () => {
    await life(0, { 1: { programs: [{ code: 'a\nb' }, { code: 'c' }], tasks: [] }, 2: { programs: [{ code: 'd' }], tasks: [{ id: 1 }] } });
    expect(await textOf('programs.jsonl')).toBe('{"step":1,"code":"a\\nb"}\n{"step":1,"code":"c"}\n{"step":2,"code":"d"}\n');
    expect(await textOf('tasks.jsonl')).toBe('{"step":2,"id":1}\n');
    expect(await sourceFiles(directory)).toEqual([join(directory, 'programs.jsonl'), join(directory, 'tasks.jsonl')]);
  });

  it('makes no folder and no file where there are no rows', async () => {
    await life(3, { 4: { programs: [] }, 5: {} });
    expect(await readdir(parent)).toEqual([]);
    expect(await sourceFiles(directory)).toEqual([]);
  });

  it('has every row once after a process that was killed, wherever its last line was cut off', async () => {
    const steps = { 1: { programs: [{ code: 'one' }] }, 2: { programs: [{ code: 'two' }, { code: 'zwei' }] }, 3: { programs: [{ code: 'three' }] } };
    await life(0, steps);
    const whole = await textOf('programs.jsonl');
    const path = join(directory, 'programs.jsonl');
    const first = whole.indexOf('\n') + 1;
    for (let size = first - 1; size <= whole.length; size++) {
      await writeFile(path, whole);
      await truncate(path, size);
      const { 1: _, ...later } = steps;
      await life(1, later);
      expect(await textOf('programs.jsonl')).toBe(whole);
    }
  });

  it('removes secrets from texts at any depth, and from no name', async () => {
    const redact = (text: string) => text.replaceAll('sk-1', '***');
    await life(0, { 1: { programs: [{ code: 'sk-1', inputs: ['x sk-1', 3, { 'sk-1': null }] }] } }, { redact });
    expect(await textOf('programs.jsonl')).toBe('{"step":1,"code":"***","inputs":["x ***",3,{"sk-1":null}]}\n');
  });

  it('refuses a damaged line by its number, and leaves files of other names alone', async () => {
    await life(0, { 1: { programs: [{ code: 'a' }] } });
    await writeFile(join(directory, 'notes.txt'), 'mine');
    await appendFile(join(directory, 'programs.jsonl'), '{"code":"without a step"}\n{"step":2}\n');
    await expect(life(2, {})).rejects.toThrow(ResultsError);
    await expect(life(2, {})).rejects.toThrow(/^Line 2 of .*programs\.jsonl is not a row of a source with its step .*; delete that line/);
    expect(await textOf('notes.txt')).toBe('mine');
  });
});
