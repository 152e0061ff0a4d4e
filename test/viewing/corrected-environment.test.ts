/** A training whose environment was corrected: evaluations from before have rewards of another scale. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { compareRuns } from '../../src/evaluate/compare-runs.ts';
import { type ComparedRun, readComparedRun } from '../../src/evaluate/compared-run.ts';
import { FileSource } from '../../src/viewing/file-source.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { stepText, writeTraining } from './written-runs.ts';

const evaluation = (step: number, reward: number, setup: number) =>
  `${JSON.stringify({ kind: 'evaluation', step, time: '2026-01-01T00:00:00.000Z', reward_mean: reward, rollouts: 1, evaluation_setup: setup })}\n`;

it('draws, lists and follows only the evaluations of the newest setup, says so of the others, and compares none of them', async () => {
  using folder = new TemporaryFolder();
  const directory = writeTraining(join(folder.path, 't'));
  const metrics = join(directory, 'metrics.jsonl');
  writeFileSync(metrics, `${evaluation(0, 0.25, 7)}${evaluation(1, 0.5, 7)}`);
  writeFileSync(join(directory, 'evaluations/step-000001.jsonl'), stepText(1, [{ group: 'h', reward: 1 }]));
  const source = new FileSource({ root: folder.path, label: 'runs', tokenizers: { given: null, hashOf: () => 'none' } });
  const before = await source.metrics('t', 0);
  expect([before.lines.length, before.older]).toEqual([2, 0]);
  // Evaluated again where it stood, with the corrected environment.
  appendFileSync(metrics, `${evaluation(1, 30, 8)}${evaluation(2, 40, 8)}`);
  const after = await source.metrics('t', before.next);
  // The page begins anew, because earlier points are gone.
  expect(after.next).toBeLessThan(before.next);
  expect([after.lines.map(({ step, values }) => [step, values['reward_mean']]), after.older]).toEqual([
    [
      [1, 30],
      [2, 40],
    ],
    2,
  ]);
  const detail = await source.run('t');
  if (detail.kind !== 'training') throw new Error('It is a training.');
  expect(detail.run.curve.map(({ value }) => value)).toEqual([30, 40]);
  expect(detail.sets.filter(({ kind }) => kind === 'evaluation').map(({ title, older }) => [title, older])).toEqual([
    ['Evaluation after step 0, before its environment or settings changed', true],
    ['Evaluation after step 1', false],
    ['Evaluation after step 2', false],
  ]);
  expect(detail.held_out.find(({ group }) => group === 'h')!.rewards.map(({ step }) => step)).toEqual([1, 2]);
  const sets = [0, 2].map((step) => ({ run: 't', set: `evaluation/${step}` }));
  expect((await source.compare({ sets })).differences).toMatchObject([
    { mean: null, notComparable: expect.stringMatching(/^A was played before the environment or the settings/) as string },
  ]);
  const files = await Promise.all([0, 1, 2].map((step) => readComparedRun(join(directory, `evaluations/step-00000${step}.jsonl`))));
  const [first, second, third] = files as [ComparedRun, ComparedRun, ComparedRun];
  // They hold no questions, so only an equal scale lets equal ids stand for equal rows.
  expect(() => compareRuns([first, third])).toThrow(/step-000000\.jsonl was played before the environment or the settings/);
  expect(compareRuns([first, third], { byId: true }).pairs[0]!.notComparable).toMatch(/^A was played before/);
  expect(compareRuns([second, third]).pairs[0]!.notComparable).toBeNull();
  const newest = [1, 2].map((step) => ({ run: 't', set: `evaluation/${step}` }));
  expect((await source.compare({ sets: newest })).differences).toMatchObject([{ notComparable: null }]);
});
