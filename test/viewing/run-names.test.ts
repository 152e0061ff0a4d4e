import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openView } from '../../src/server/view/open-view.ts';
import { writeEvaluation } from './written-runs.ts';

it('tells runs of one name apart by their settings, in the list, and on the page of each', async () => {
  const root = mkdtempSync(join(tmpdir(), 'vf-run-names-'));
  for (const temperature of [0, 1])
    writeEvaluation(join(root, `t${temperature}`), [{ group: 'a' }], {
      name: 'First try',
      config: { env_id: 'written', sampling_args: { temperature } },
    });
  writeEvaluation(join(root, 'other'), [{ group: 'a' }], { name: 'Second try', config: { env_id: 'written', sampling_args: { temperature: 0.5 } } });
  const { source, runs } = await openView({ folder: root, tokenizer: undefined });
  const shown = (line: (typeof runs)[number]) => [line.id, line.name, line.differs];
  const expected = [
    ['other', 'Second try', ''],
    ['t0', 'First try', 'temperature 0'],
    ['t1', 'First try', 'temperature 1'],
  ];
  expect(new Set(runs.map(shown))).toEqual(new Set(expected));
  const pages = await Promise.all(['other', 't0', 't1'].map(async (id) => (await source.run(id)).run));
  expect(pages.map(shown)).toEqual(expected);
  rmSync(root, { recursive: true });
});
