import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Dataset, type Row } from '../../../src/core/dataset.ts';
import { TrainingRows } from '../../../src/trainer/sources/training-rows.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-rows-'));
afterAll(() => rmSync(root, { recursive: true }));

const rows = (count: number): Row[] =>
  Array.from({ length: count }, (_, i) => ({ exampleId: i, prompt: [{ role: 'user', content: `${i}?` }], answer: String(i), info: { at: i } }));

async function notices(before: readonly Row[], after: readonly Row[]): Promise<string[]> {
  const directory = mkdtempSync(join(root, 'of-'));
  const found: string[] = [];
  await new TrainingRows(new Dataset('sums', before), () => expect.unreachable()).saveState(directory);
  await new TrainingRows(new Dataset('sums', after), (message) => found.push(message)).loadState(directory);
  return found;
}

describe('TrainingRows', () => {
  it('says nothing where the rows are the same', async () => {
    expect(await notices(rows(9), rows(9))).toEqual([]);
    expect(await notices(rows(9000), rows(9000))).toEqual([]);
  });

  it('says once where rows are other ones, in another order, or more', async () => {
    const [first, ...rest] = rows(9);
    for (const other of [[{ ...first!, answer: 'x' }, ...rest], rows(9).toReversed(), [...rest, first!]])
      expect(await notices(rows(9), other)).toEqual([expect.stringMatching(/^The training rows of sums have changed .*\(9 rows then, 9 now\)/)]);
    expect(await notices(rows(9000), rows(9001))).toEqual([expect.stringContaining('9000 rows then, 9001 now')]);
    expect(await notices(rows(9000), rows(9000).toReversed())).toHaveLength(1);
  });

  it('compares nothing with a checkpoint that holds no rows', async () => {
    await new TrainingRows(new Dataset('sums', rows(2)), () => expect.unreachable()).loadState(mkdtempSync(join(root, 'empty-')));
  });
});
