import { appendFileSync, mkdtempSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { RolloutIndex } from '../../src/viewing/rollout-index.ts';
import type { RolloutTable } from '../../src/viewing/rollout-table.ts';
import { resultLine, stepText, trajectoryLine } from './written-runs.ts';

const root = mkdtempSync(join(tmpdir(), 'rollout-index-'));
afterAll(() => rmSync(root, { recursive: true }));

let files = 0;
function written(content: string | Buffer, name = `${files++}.jsonl`): { index: RolloutIndex; path: string } {
  const path = join(root, name);
  writeFileSync(path, content);
  return { path, index: new RolloutIndex({ directory: root, name, isPacked: name.endsWith('.gz') }) };
}

function rewards(table: RolloutTable): Record<string, number | null> {
  const group = table.name('group');
  return Object.fromEntries([...table.rows].map((row) => [`${group(row)}/${table.index(row)}`, table.figures(row).reward]));
}

async function text(index: RolloutIndex, table: RolloutTable, row: number): Promise<string> {
  let found = '';
  await index.lines(table, [row], (_, line) => void (found = line.toString('utf8')));
  return found;
}

describe('RolloutIndex', () => {
  it('reads what was appended, and a half-written line once it is whole', async () => {
    const [first, second] = [resultLine({ group: 'a' }), resultLine({ group: 'b', reward: 0 })];
    const { index, path } = written(`${first}\n${second.slice(0, 50)}`);
    expect(rewards(await index.refresh())).toEqual({ 'a/0': 1 });
    appendFileSync(path, second.slice(50));
    expect(rewards(await index.refresh())).toEqual({ 'a/0': 1 });
    appendFileSync(path, '\n');
    const table = await index.refresh();
    expect(rewards(table)).toEqual({ 'a/0': 1, 'b/0': 0 });
    expect(await text(index, table, 1)).toBe(second);
  });

  it('shows the rewards that rollouts got later, once they are on file, and forgets them when the rollouts are played again', async () => {
    const owed = (index: number) => trajectoryLine({ group: 'p', index, more: { reward: null, metrics: {}, unpaid: true } });
    const { index: alone, path } = written(`${owed(0)}\n${owed(1)}\n`);
    const name = `${alone.file.name}.rewards`;
    const index = new RolloutIndex(alone.file, { directory: root, name, isPacked: false });
    const shown = async () => {
      const table = await index.refresh();
      return [...table.rows].map((row) => [table.figures(row).reward, table.figures(row).isUnpaid, table.metrics(row)['grade'] ?? null]);
    };
    const nothing = [null, true, null];
    expect(await shown()).toEqual([nothing, nothing]);
    const line = { rollout_id: 'p/1', group_id: 'p', rollout_index: 1, reward: 0.5, metrics: { grade: 0.75 } };
    writeFileSync(join(root, name), `${JSON.stringify(line)}\n`);
    expect(await shown()).toEqual([nothing, [0.5, false, 0.75]]);
    expect(await shown()).toEqual([nothing, [0.5, false, 0.75]]);
    rmSync(join(root, name));
    writeFileSync(path, `${owed(0)}\n${owed(1)}\n`);
    expect(await shown()).toEqual([nothing, nothing]);
  });

  it('reads { any lines, appended in any pieces } as it reads them at once', async () => {
    const row = fc.record({
      group: fc.constantFrom('a', 'b', '__proto__', 'ü/1'),
      index: fc.nat(3),
      reward: fc.option(fc.integer()),
      response: fc.string(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 8 }), async (rows, cuts) => {
        const bytes = Buffer.from(rows.map((one) => `${resultLine(one)}\n`).join(''));
        const { index, path } = written('');
        let from = 0;
        for (const to of [...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]) {
          appendFileSync(path, bytes.subarray(from, to));
          from = to;
          await index.refresh();
        }
        const last = new Map(rows.map((one) => [`${one.group}/${one.index}`, one.reward]));
        expect(rewards(await index.refresh())).toEqual(Object.fromEntries(last));
      }),
      { numRuns: 60 },
    );
  });

  it('begins again where the file was replaced, cut, or cut and written again', async () => {
    const { index, path } = written(`${resultLine({ group: 'a' })}\n${resultLine({ group: 'b' })}\n`);
    expect((await index.refresh()).size).toBe(2);
    writeFileSync(`${path}.new`, `${resultLine({ group: 'a', reward: 0.5 })}\n${resultLine({ group: 'b', reward: 0.5 })}\n`);
    renameSync(`${path}.new`, path);
    expect(rewards(await index.refresh())).toEqual({ 'a/0': 0.5, 'b/0': 0.5 });
    truncateSync(path, resultLine({ group: 'a', reward: 0.5 }).length + 1);
    expect(rewards(await index.refresh())).toEqual({ 'a/0': 0.5 });
    truncateSync(path, 0);
    appendFileSync(path, ['x', 'y', 'z'].map((group) => `${resultLine({ group, reward: 3 })}\n`).join(''));
    expect(rewards(await index.refresh())).toEqual({ 'x/0': 3, 'y/0': 3, 'z/0': 3 });
    rmSync(path);
    expect((await index.refresh()).size).toBe(0);
  });

  it('leaves out and counts broken lines, and passes over a line of 100 MB without holding it', async () => {
    const { index, path } = written(`${resultLine({ group: 'a' })}\n{"group_id":"b","rollout\n\x00\xff\n[1]\n`);
    const huge = Buffer.alloc(10 * 2 ** 20, 'x');
    appendFileSync(path, '{"group_id":"huge","rollout_index":0,"reward":1,"prompt":"');
    for (let i = 0; i < 10; i++) appendFileSync(path, huge);
    appendFileSync(path, `"}\n${resultLine({ group: 'c', reward: 0 })}\n`);
    const table = await index.refresh();
    expect(rewards(table)).toEqual({ 'a/0': 1, 'c/0': 0 });
    expect(index.problems(false)).toEqual([
      expect.stringMatching(/\d+\.jsonl is damaged: line 2 is no JSON object, so it is left out; 3 further lines are damaged too\.$/),
    ]);
    const row = table.find('c', 0)!;
    expect(await text(index, table, row)).toBe(resultLine({ group: 'c', reward: 0 }));
  });

  it('reads compressed steps: rollouts since the last restart, and whether they are complete', async () => {
    const before = `${trajectoryLine({ group: 'old' })}\n{"restarted":true,"step":1}\n`;
    const whole = stepText(1, [
      { group: 'a', reward: 0 },
      { group: 'a', index: 1, reward: null },
    ]);
    const { index } = written(gzipSync(before + whole), 'step-000001.jsonl.gz');
    const table = await index.refresh();
    expect(rewards(table)).toEqual({ 'a/0': 0, 'a/1': null });
    expect([table.isComplete, index.problems(false), table.name('error')(2)]).toEqual([true, [], 'PolicyError']);
    expect(await text(index, table, table.find('a', 1)!)).toBe(trajectoryLine({ group: 'a', index: 1, reward: null }));
  });

  it('takes NaN and Infinity of Python for no reward', async () => {
    const line = (group: string, reward: string) => resultLine({ group, reward: 77 }).replace('"reward":77', `"reward":${reward}`);
    const { index } = written(`${line('a', 'NaN')}\n${line('b', 'Infinity')}\n`);
    expect(rewards(await index.refresh())).toEqual({ 'a/0': null, 'b/0': null });
  });

  it('refuses a file that is a link out of its folder', async () => {
    const { path } = written(`${resultLine({ group: 'secret' })}\n`);
    const inner = mkdtempSync(join(root, 'inner-'));
    symlinkSync(path, join(inner, 'results.jsonl'));
    const index = new RolloutIndex({ directory: inner, name: 'results.jsonl', isPacked: false });
    await expect(index.refresh()).rejects.toThrow(/link that leads out/);
  });
});
