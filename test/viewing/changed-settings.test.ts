import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openView } from '../../src/server/view/open-view.ts';
import { writeTraining } from './written-runs.ts';

it('shows every value of a setting that changed between the steps of a training, on its page and where it is told apart', async () => {
  const root = mkdtempSync(join(tmpdir(), 'vf-changed-'));
  const [changed] = ['changed', 'fresh'].map((name) => writeTraining(join(root, name), 'name = "demo"\noptimizer.learning_rate = 0.002\n'));
  const changes = [{ key: 'optimizer.learning_rate', before: 0.001, after: 0.002 }];
  const event = { kind: 'settings_changed', step: 1, time: '2026-01-02T00:00:00.000Z', message: 'Changed', changes };
  writeFileSync(join(changed!, 'events.jsonl'), `${JSON.stringify(event)}\n`);
  const { source, runs } = await openView({ folder: root, tokenizer: undefined });
  const values = '0.001 in step 1, then 0.002';
  const told = Object.fromEntries(runs.map(({ id, differs }) => [id, differs]));
  expect(told).toEqual({ changed: expect.stringContaining('lr 0.001 in step 1') as string, fresh: 'lr 0.002' });
  const detail = await source.run('changed');
  expect(detail.kind === 'training' && detail.facts.find(({ name }) => name === 'optimizer.learning_rate')).toMatchObject({ value: values });
  expect((await source.metrics('changed', 0)).settings).toMatchObject({ optimizer: { learning_rate: values } });
  rmSync(root, { recursive: true });
});
