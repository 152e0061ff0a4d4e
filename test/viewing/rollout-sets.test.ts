import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { MetricFile } from '../../src/viewing/metric-file.ts';
import { rolloutSets } from '../../src/viewing/rollout-sets.ts';
import { writeTraining } from './written-runs.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-sets-'));
afterAll(() => rmSync(root, { recursive: true }));

describe('rolloutSets', () => {
  it('names the version that played an evaluation where that is not the one of its step', async () => {
    const directory = writeTraining(join(root, 'run'));
    const metrics = new MetricFile(directory);
    const titles = async () =>
      (await rolloutSets({ id: 'run', directory, kind: 'training' }, await metrics.playedBy())).map(({ set }) => set.title).slice(0, 2);
    expect(await titles()).toEqual(['Evaluation after step 0', 'Evaluation after step 2']);
    appendFileSync(join(directory, 'metrics.jsonl'), `${JSON.stringify({ kind: 'evaluation', step: 2, time: '', policy_version: 1 })}\n`);
    expect(await titles()).toEqual(['Evaluation after step 0', 'Evaluation after step 2, played by version 1']);
  });
});
