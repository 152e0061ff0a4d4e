/** vf-export of a training run: the rollouts of a kept step, compressed or not, in the form of an evaluation's. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rewardsPath, writePaidRewards } from '../../src/trainer/records/paid-rewards.ts';
import { thinLine, trajectoryRecord } from '../../src/trainer/records/trajectory-record.ts';
import { rolloutGroups } from '../../src/trainer/sources/rollout-groups.ts';
import { unpaid, withReward } from '../../src/trainer/trajectory.ts';
import { branched } from '../trainer/branched-trajectory.ts';
import { trajectory } from '../trainer/some-trajectories.ts';
import { writeEvaluation, writeTraining } from '../viewing/written-runs.ts';
import { runInProcess } from './in-process.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-export-training-'));
const run = join(root, 'run');
afterAll(() => rmSync(root, { recursive: true }));
beforeAll(() => {
  writeTraining(run);
  const live = (step: number) => join(run, `rollouts/step-00000${step}.jsonl`);
  const text = readFileSync(live(1), 'utf8');
  writeFileSync(`${live(1)}.gz`, gzipSync(text));
  writeFileSync(`${live(3)}.thin.gz`, gzipSync(text.split('\n').map(thinLine).join('\n')));
  rmSync(live(1));
  writeEvaluation(join(root, 'evaluation'), [{ group: 'a' }]);
});

const vfExport = (...args: string[]) => vfExportTo('-', ...args);

async function vfExportTo(output: string, ...args: string[]) {
  const { code, stdout, stderr } = await runInProcess('vf-export', [...args, '-o', output], { cwd: root, env: {} });
  const lines = stdout.split('\n').slice(0, -1);
  return { code, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>), stderr };
}

describe('vf-export of a training run', () => {
  it('writes the rollouts of a compressed step with their tokens', async () => {
    const { code, lines, stderr } = await vfExport(run, '--step', '1');
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'vf-export: 3 rollouts written to stdout\n' });
    expect(lines.map(({ rollout_id, reward }) => [rollout_id, reward])).toEqual([
      ['a/0', 0],
      ['a/1', 0.5],
      ['a/2', 1],
    ]);
    expect(lines[1]).toMatchObject({
      group_id: 'a',
      token_ids: [20, 21, 22, 31, 31],
      loss_mask: [0, 0, 0, 1, 1],
      logprobs: [null, null, null, -0.5, -1.5],
      prompt_length: 3,
      segments: [
        { kind: 'prompt', start: 0, end: 3, version: null },
        { kind: 'model', start: 3, end: 5, version: 3 },
      ],
      policy: { model: 'nano-base', version: 3 },
      sampling: { temperature: 1, top_p: 1 },
    });
  });

  it('leaves out failed rollouts, and selects supervised rows as of an evaluation', async () => {
    expect((await vfExport(run, '--step', '2')).stderr).toBe('vf-export: 4 rollouts written to stdout; left out: 1 failed\n');
    const { lines, stderr } = await vfExport(run, '--step', '2', '--sft', '--min-reward', '0.5', '--best', '1');
    expect(lines.map(({ group_id, reward, loss_mask }) => [group_id, reward, loss_mask])).toEqual([
      ['a', 1, [0, 0, 0, 1, 1]],
      ['b', 1, [0, 0, 0, 1, 1]],
    ]);
    expect(stderr).toContain('left out: 1 failed, 2 not selected');
  });

  it('writes a line for each branch of a rollout, which training reads as the same rollout again', async () => {
    const branches = [
      { sampled: [-1, -2] },
      { sampled: [-3], prompt: 4, parent: 0, role: 'helper', reward: 2, endsLast: true as const },
      { sampled: [-4] },
    ];
    const written = branched('b/0', branches, { reward: 0.25, role: 'lead', turnTokens: [1, 1, 1, 0, 1], turnRewards: [null, 1, null, null, 0] });
    const rollouts = join(run, 'rollouts/step-000006.jsonl');
    writeFileSync(rollouts, `${JSON.stringify(trajectoryRecord(written, (text) => text))}\n`);
    const { lines, stderr } = await vfExport(run, '--step', '6');
    expect(stderr).toBe('vf-export: 1 rollout in 3 branches written to stdout\n');
    expect(
      lines.map(({ branch, parent, role, reward, branch_reward, token_ids }) => [branch, parent, role, reward, branch_reward, token_ids]),
    ).toEqual([
      [0, null, 'lead', 0.25, undefined, [1, 2, 3, 4, 5]],
      [1, 0, 'helper', 0.25, 2, [6, 7, 8, 9, 10, 11]],
      [2, null, 'lead', 0.25, undefined, [12, 13, 14, 15]],
    ]);
    const options = { name: 'it', rolloutsPerGroup: 1, onRole: () => {}, temperature: 1, tokenizerHash: null, vocabularySize: null, longest: 6 };
    const read = rolloutGroups(
      {
        ...options,
        lines: async function* () {
          yield* lines.map((line) => JSON.stringify(line));
        },
      },
      () => expect.fail('left out'),
    );
    const back = (await read.next()).value![0]!;
    const { ids, targets, logProbs, turnTokens, turnRewards, branches: placed, role } = written;
    expect(back).toMatchObject({ ids, targets, logProbs, turnTokens, turnRewards, role });
    expect(back.branches).toEqual(placed!.map((branch) => ({ role: 'lead', ...branch })));
    const rows = await vfExport(run, '--step', '6', '--sft');
    expect(rows.lines.map(({ rollout_id, branch, loss_mask }) => [rollout_id, branch, loss_mask])).toEqual([
      ['b/0', 0, [0, 0, 1, 1, 0]],
      ['b/0', 1, [0, 0, 0, 0, 1, 0]],
      ['b/0', 2, [0, 0, 1, 0]],
    ]);
    rmSync(rollouts);
  });

  it('writes rollouts with the rewards that they got later, their role and task, and leaves out those without', async () => {
    const proposed = [0, 1].map((index) => unpaid(trajectory(`p/${index}`, { role: 'propose', task: 'code_o' })));
    const rollouts = join(run, 'rollouts/step-000005.propose.jsonl');
    writeFileSync(rollouts, proposed.map((each) => `${JSON.stringify(trajectoryRecord(each, (text) => text))}\n`).join(''));
    expect((await vfExport(run, '--step', '5')).stderr).toContain('2 without a reward from their source');
    await writePaidRewards(rollouts, [withReward(proposed[1]!, 0.25, { accuracy_of_probes: 0.75 })]);
    const { lines, stderr } = await vfExport(run, '--step', '5');
    expect(stderr).toBe('vf-export: 1 rollout written to stdout; left out: 1 without a reward from their source\n');
    expect(lines).toMatchObject([{ rollout_id: 'p/1', role: 'propose', task: 'code_o', reward: 0.25, metrics: { accuracy_of_probes: 0.75 } }]);
    for (const path of [rollouts, rewardsPath(rollouts)]) rmSync(path);
  });

  it('names a run that has a name of its own', async () => {
    const named = join(root, 'named');
    writeTraining(named, 'name = "one night"\n');
    const { lines, stderr } = await vfExport(named, '--step', '1');
    expect(stderr).toBe('vf-export: 3 rollouts of "one night" written to stdout\n');
    expect(lines.map(({ run_name: name }) => name)).toEqual(Array(3).fill('one night'));
    writeTraining(named, 'name = "written-nano-base"\n');
    expect((await vfExport(named, '--step', '1')).stderr).toBe('vf-export: 3 rollouts written to stdout\n');
  });

  it('replaces no record of the run', async () => {
    const record = join(run, 'rollouts/step-000002.jsonl');
    const before = readFileSync(record, 'utf8');
    const { code, stderr } = await vfExportTo(record, run, '--step', '2');
    expect({ code, stderr, after: readFileSync(record, 'utf8') }).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /^vf-export: .*step-000002\.jsonl \(-o\) is a file of the run .*run and was not replaced\. Name a file outside .*\n$/,
      ),
      after: before,
    });
  });

  it('replaces no file with a step that holds no rollout', async () => {
    writeFileSync(join(run, 'rollouts/step-000004.jsonl'), '');
    const output = join(root, 'kept.jsonl');
    writeFileSync(output, 'kept');
    const { code, stderr } = await vfExportTo(output, run, '--step', '4');
    expect({ code, stderr, after: readFileSync(output, 'utf8') }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^vf-export: No rollout is recorded in step 4 of .*run; nothing was written\n$/),
      after: 'kept',
    });
    rmSync(join(run, 'rollouts/step-000004.jsonl'));
  });

  it('exports each rollout once where a copy of a step has another spelling of its number', async () => {
    const copies = ['step-2.jsonl', 'step-0000002.jsonl'].map((name) => join(run, 'rollouts', name));
    for (const copy of copies) copyFileSync(join(run, 'rollouts/step-000002.jsonl'), copy);
    expect((await vfExport(run, '--step', '2')).stderr).toBe('vf-export: 4 rollouts written to stdout; left out: 1 failed\n');
    for (const copy of copies) rmSync(copy);
  });

  it.each<[string, string[], RegExp]>([
    ['no step', [run], /is a training run\. Name one of its steps: --step N\. It has kept the steps 1, 2 with their tokens\.$/m],
    ['a step that is gone', [run, '--step', '9'], /has not kept the rollouts of step 9\. It has kept/],
    ['a step without tokens', [run, '--step', '3'], /has kept step 3 without its tokens, to save space/],
    ['no number', [run, '--step', 'x'], /--step must be an integer of at least 1, got "x"/],
    [
      'an evaluation with a step',
      [join(root, 'evaluation'), '--step', '1'],
      /evaluation is not a training run, so it has no steps\. Leave --step out\./,
    ],
  ])('answers %s with one line and exit code 2', async (_, args, message) => {
    const { code, lines, stderr } = await vfExport(...args);
    expect({ code, lines, count: stderr.trim().split('\n').length }).toEqual({ code: 2, lines: [], count: 1 });
    expect(stderr).toMatch(message);
  });
});
