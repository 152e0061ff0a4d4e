import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { readResult, runStages, type Stage } from '../../../scripts/real-model/stages.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';

const folders: { remove: () => void }[] = [];
afterEach(() => folders.splice(0).forEach((folder) => folder.remove()));

/** Two stages that count how often they ran. */
function twoStages({ start = 1, fails = false }: { readonly start?: number; readonly fails?: boolean } = {}) {
  const folder = temporaryFolder();
  folders.push(folder);
  const ran: string[] = [];
  const stages = (from: number): Stage[] => [
    { name: 'one', needs: [], settings: { from }, run: async () => (ran.push('one'), { count: from }) },
    {
      name: 'two',
      needs: ['one'],
      settings: null,
      run: async (own) => {
        const partial = join(own, 'partial');
        if (fails && !existsSync(partial)) {
          writeFileSync(partial, 'half');
          throw new Error('killed');
        }
        ran.push('two');
        return { count: (readResult(folder.path, 'one') as { count: number }).count + 1, found: existsSync(partial) };
      },
    },
  ];
  const lines: string[] = [];
  const run = (from = start, only?: readonly string[]) =>
    runStages(stages(from), { output: folder.path, say: (line) => lines.push(line), ...(only === undefined ? {} : { only }) });
  return { path: folder.path, ran, run, lines };
}

describe('runStages', () => {
  it('gives each stage the results before it, and runs none twice', async () => {
    const { path, ran, run, lines } = twoStages();
    await run();
    await run();
    expect(ran).toEqual(['one', 'two']);
    expect(readResult(path, 'two')).toEqual({ count: 2, found: false });
    expect(lines.filter((line) => line.endsWith('done before'))).toHaveLength(2);
  });

  it('leaves no record of a stage that failed, and lets it go on in its folder', async () => {
    const { path, ran, run } = twoStages({ fails: true });
    await expect(run()).rejects.toThrow('killed');
    expect(existsSync(join(path, 'two.json'))).toBe(false);
    await run();
    expect(ran).toEqual(['one', 'two']);
    expect(readResult(path, 'two')).toEqual({ count: 2, found: true });
  });

  it('refuses changed settings, and a stage whose input was made again', async () => {
    const { path, run } = twoStages();
    await run();
    const before = readFileSync(join(path, 'one.json'), 'utf8');
    await expect(run(5)).rejects.toThrow(/^The stage one was run with \{"from":1\}, but its settings are \{"from":5\} now\. Delete .*one\.json/);
    rmSync(join(path, 'one.json'));
    await expect(run(5)).rejects.toThrow(/^The stage one was run again after two, which reads it\. Delete .*two\.json/);
    writeFileSync(join(path, 'one.json'), before);
    await run();
  });

  it('runs chosen stages only, and says what they lack', async () => {
    const { ran, run } = twoStages();
    await expect(run(1, ['two'])).rejects.toThrow(/^The stage one has not been run: there is no .*one\.json/);
    await expect(run(1, ['three'])).rejects.toThrow('Unknown stage: three. The stages are one, two.');
    await run(1, ['one']);
    expect(ran).toEqual(['one']);
  });
});
