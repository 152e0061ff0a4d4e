import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { openView } from '../../src/server/view/open-view.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';
import { parseTrajectory } from '../../src/trainer/records/trajectory-record.ts';
import type { Trajectory } from '../../src/trainer/trajectory.ts';
import { stepText, trajectoryLine, writeTraining } from './written-runs.ts';
import { credits, passOver } from '../trainer/credit/credit-cases.ts';

const root = mkdtempSync(join(tmpdir(), 'step-advantages-'));
afterAll(() => rmSync(root, { recursive: true }));

let runs = 0;

describe('stepAdvantages', () => {
  it('gives every rollout the advantage of groupCredit, for { any rewards and settings }', async () => {
    const row = fc.record({
      group: fc.constantFrom('a', 'b'),
      index: fc.nat(5),
      reward: fc.option(fc.integer({ min: -3, max: 3 })),
      more: fc.record({ is_truncated: fc.boolean() }),
    });
    const settings = fc.record({ std: fc.constantFrom('sample', 'population', 'none'), baseline: fc.constantFrom('mean', 'leave_one_out') });
    const algorithm = fc.record({ constant_groups: fc.constantFrom('keep', 'drop'), negate_advantages: fc.boolean() });
    const rows = fc.uniqueArray(row, { minLength: 1, maxLength: 12, selector: ({ group, index }) => `${group}/${index}` });
    await fc.assert(
      fc.asyncProperty(rows, settings, algorithm, fc.constantFrom('train', 'mask'), async (rollouts, advantage, more, truncated) => {
        const run = writeTraining(join(root, String(runs++)));
        const toml = [
          'steps = 2',
          '[environment]\nid = "written"',
          '[model]\npath = "nano-base"',
          '[policy]\nbase_url = "http://127.0.0.1:1/v1"',
          `[rollouts]\ntruncated = "${truncated}"`,
          `[algorithm]\nconstant_groups = "${more.constant_groups}"\nnegate_advantages = ${more.negate_advantages}`,
          `[algorithm.advantage]\nstd = "${advantage.std}"\nbaseline = "${advantage.baseline}"`,
        ];
        writeFileSync(join(run, 'config.toml'), toml.join('\n'));
        writeFileSync(join(run, 'rollouts/step-000001.jsonl'), stepText(1, rollouts));
        const { source } = await openView({ folder: run, tokenizer: undefined });
        const { groups, advantages_problem: problem } = await source.step('.', 1);
        expect(problem).toBeNull();
        const shown = groups.flatMap((group) =>
          group.rollouts.flatMap(({ rollout_id: id, advantage: value }) => (value === null ? [] : [[id, value] as const])),
        );
        expect(Object.fromEntries(shown)).toEqual(await credited(rollouts, { algorithm: { ...more, advantage }, rollouts: { truncated } }));
      }),
      { numRuns: 40 },
    );
  });

  it('gives those that the step recorded, by turn where turns differ, whatever the credit, and the rewards of turns next to them', async () => {
    const run = writeTraining(join(root, 'recorded'), '[algorithm.advantage]\nuse = "./gone.ts"\n');
    const segments = ['one', 'two'].flatMap((text) => [
      { kind: 'model', text },
      { kind: 'observation', text: 'more' },
    ]);
    const rows = [0, 1, 2].map((index) => ({ group: 'a', index, more: { segments, ...(index === 1 ? { turn_rewards: [0.5, null] } : {}) } }));
    writeFileSync(join(run, 'rollouts/step-000001.jsonl'), stepText(1, rows));
    const line = (index: number, more: object) => `${JSON.stringify({ rollout_id: `a/${index}`, group_id: 'a', rollout_index: index, ...more })}\n`;
    const file = join(run, 'rollouts/step-000001_advantages.jsonl');
    writeFileSync(file, line(0, { advantage: 0.25 }) + line(1, { advantage: -0.5, turn_advantages: [null, -0.5] }) + '{"torn');
    const { source } = await openView({ folder: run, tokenizer: undefined });
    const { groups, advantages_problem: problem } = await source.step('.', 1);
    expect(problem).toBeNull();
    expect(groups[0]!.rollouts.map(({ advantage, turn_advantages: turns }) => [advantage, turns])).toEqual([
      [0.25, null],
      [-0.5, [null, -0.5]],
      [null, null],
    ]);
    const detail = await source.rollout({ run: '.', set: 'step/1', group: 'a', index: 1 });
    expect(detail.parts.map(({ kind, reward, advantage }) => [kind, reward, advantage])).toEqual([
      ['model', 0.5, undefined],
      ['observation', undefined, undefined],
      ['model', undefined, -0.5],
      ['observation', undefined, undefined],
    ]);
    expect(detail.facts).toContainEqual({ name: 'turn rewards', value: '0.5, none' });
    writeFileSync(file, '');
    rmSync(file);
    expect((await source.step('.', 1)).advantages_problem).toMatch(/not shown before the step is trained: this run has another credit/);
  });

  it('says why it has none where rewards are compared beyond a row', async () => {
    const run = writeTraining(join(root, 'batch'), '[algorithm.advantage]\nscope = "batch"\n');
    const { source } = await openView({ folder: run, tokenizer: undefined });
    const { advantages_problem: problem, groups } = await source.step('.', 1);
    expect(problem).toMatch(/compares rewards by batch/);
    expect(groups[0]!.rollouts.map(({ advantage }) => advantage)).toEqual([null, null, null]);
  });
});

async function credited(rows: readonly Parameters<typeof trajectoryLine>[0][], table: Record<string, unknown>): Promise<Record<string, number>> {
  const needed = { environment: { id: 'written' }, model: { path: 'nano-base' }, policy: { base_url: 'http://127.0.0.1:1/v1' } };
  const { config } = resolveTrainingConfig([{ source: 'test', table: { ...needed, ...table } }]);
  const trajectories = rows.map((row) => (parseTrajectory(trajectoryLine(row)) as { value: Trajectory }).value);
  const { groups } = await credits(config).assign(trajectories, passOver());
  return Object.fromEntries(
    groups.flat().flatMap(({ trajectory, advantages }) => (advantages.length === 0 ? [] : [[trajectory.rolloutId, advantages[0]! + 0]])),
  );
}
