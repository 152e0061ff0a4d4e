import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { loadRecords } from '../../src/data/load-records.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-records-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('loadRecords', () => {
  it('loads both splits of the bundled programs, the held-out ones by default', async () => {
    const [held, train] = [await loadRecords({ dataset: 'mini-python' }), await loadRecords({ dataset: 'mini-python', split: 'train' })];
    expect([held.records.length, train.records.length]).toEqual([600, 90]);
    expect(held.records[0]).toMatchObject({ fields: { id: 'code_o-2-000', kind: 'code_o' } });
    expect(held.source).toMatchObject({ rows: 600, kind: 'bundled', file: 'mini-python/heldout.jsonl', license: 'Apache-2.0' });
  });

  it('reads the objects of a file, up to a limit, and names the line of each', async () => {
    const dataset = file('a.jsonl', '{"code": 1}\n{"code": 2}\n{"code": 3}\n');
    const { records, source } = await loadRecords({ dataset, limit: 2 });
    expect(records).toEqual([
      { fields: { code: 1 }, place: `Line 1 of ${dataset}` },
      { fields: { code: 2 }, place: `Line 2 of ${dataset}` },
    ]);
    expect(source).toMatchObject({ name: 'a', kind: 'file', rows: 2, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string });
    await expect(loadRecords({ dataset, limit: 0 })).rejects.toThrow('limit must be an integer of at least 1, got 0');
  });

  it('refuses lines that are not objects, empty files and unknown names', async () => {
    await expect(loadRecords({ dataset: file('list.jsonl', '{}\n[1]\n') })).rejects.toThrow(/Line 2 of .*list\.jsonl is not an object/);
    await expect(loadRecords({ dataset: file('empty.jsonl', '') })).rejects.toThrow(/empty\.jsonl contains no records/);
    await expect(loadRecords({ dataset: 'mini-python', split: 'dev' })).rejects.toThrow(ConfigError);
    await expect(loadRecords({ dataset: 'mini-pyton' })).rejects.toThrow(/"mini-pyton" does not exist\. Choose mini-python \(bundled\)/);
  });

  it('offers the sets that the caller names, and neither offers nor finds a split of other records', async () => {
    const offers = ['deck-mini', 'page-world'];
    await expect(loadRecords({ dataset: 'nope', offers })).rejects.toThrow(
      /"nope" does not exist\. Choose deck-mini, page-world \(bundled\), org\/name/,
    );
    for (const split of ['val', 'pages'])
      await expect(loadRecords({ dataset: 'deck-mini', split, foreignSplits: ['pages'] })).rejects.toThrow(
        `The data set deck-mini has no split "${split}". Choose train, test.`,
      );
    expect((await loadRecords({ dataset: 'deck-mini', split: 'pages' })).records).toHaveLength(72);
  });
});
