import { describe, expect, it } from 'vitest';
import { evaluationLine } from '../../src/viewing/run-line.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

describe('evaluationLine', () => {
  it('counts the rollouts that failed, so that a run of failures alone does not look like a success', async () => {
    using folder = new TemporaryFolder();
    const run = { id: 'a', kind: 'evaluation', directory: folder.path } as const;
    const line = (metadata: object) => evaluationLine(run, { readable: async () => ({ complete: true, num_planned: 4, ...metadata }) });
    expect(await line({ num_finished: 0, num_errored: 4, avg_reward: null })).toMatchObject({ state: 'complete', done: 4, failed: 4, reward: null });
    expect(await line({ num_finished: 4, avg_reward: 0.5 })).toMatchObject({ done: 4, failed: 0, reward: { value: 0.5 } });
  });
});
