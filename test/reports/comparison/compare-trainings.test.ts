/** Trainings in their folders, as vf-train leaves them, with figures that are known. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { estimateOverSeeds, pairedBySeed, welch } from '../../../src/core/seed-statistics.ts';
import { readComparedTrainings } from '../../../src/reports/comparison/compared-training.ts';
import { compareTrainings } from '../../../src/reports/comparison/compare-trainings.ts';
import { trainingComparisonMarkdown } from '../../../src/reports/comparison/training-comparison-markdown.ts';
import { trainingComparisonText } from '../../../src/reports/comparison/training-comparison-text.ts';
import { noPaint } from '../../../src/reports/text/paint.ts';
import type { WireTrajectory } from '../../../src/schemas/training-records.ts';

interface Run {
  readonly rate: number;
  readonly seed: number;
  /** Rewards of the last evaluation, by row, one rollout each. */
  readonly rewards: readonly number[];
  /** Reward of an evaluation at step 2. */
  readonly middle?: number;
  readonly steps?: number;
  readonly finished?: boolean;
  readonly events?: readonly object[];
  /** Version that the last step left, and that which played the last evaluation. */
  readonly versions?: readonly [left: number, played: number];
  readonly ids?: string;
}

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'vf-trainings-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
let made = 0;

function trajectory(row: string, reward: number): WireTrajectory {
  return {
    rollout_id: `${row}/0`,
    group_id: row,
    rollout_index: 0,
    reward,
    metrics: { em: reward / 2 },
    error: null,
    stop_condition: 'completed',
    is_truncated: false,
    is_cut: false,
    policy_version: 4,
    model: 'n-v4',
    num_turns: 1,
    segments: [{ kind: 'model', text: 'a' }],
    token_usage: { input_tokens: 1, output_tokens: 1, cached_tokens: null },
    prompt_length: 1,
    ids: '',
    targets: '',
  };
}

function training({ rate, seed, rewards, middle, steps = 4, finished = true, events = [], versions = [4, 4], ids = 'r' }: Run): string {
  const path = join(folder, `run--${++made}`);
  mkdirSync(join(path, 'evaluations'), { recursive: true });
  const time = '2026-01-01T00:00:00.000Z';
  writeFileSync(
    join(path, 'run.json'),
    JSON.stringify({
      schema_version: 2,
      run_id: `run--${made}`,
      started_at: time,
      finished_at: finished ? time : null,
      config_digest: 'x',
      attempts: [],
    }),
  );
  writeFileSync(
    join(path, 'config.toml'),
    `name = "n${made}"\nseed = ${seed}\nsteps = ${steps}\noutput_dir = "o${made}"\n[environment]\nid = "search-r1"\n[optimizer]\nlearning_rate = ${rate}\n`,
  );
  const evaluation = (step: number, reward: number, version: number) => ({
    kind: 'evaluation',
    step,
    time,
    policy_version: version,
    reward_mean: reward,
    reward_low: reward - 0.1,
    reward_high: reward + 0.1,
    rollouts: rewards.length,
    'rubric/em': reward / 2,
  });
  const rows = [
    ...(middle === undefined ? [] : [{ kind: 'step', step: 2, time, policy_version: 2 }, evaluation(2, middle, 2)]),
    { kind: 'step', step: 4, time, policy_version: versions[0] },
    evaluation(4, mean(rewards), versions[1]),
  ];
  writeFileSync(join(path, 'metrics.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  writeFileSync(join(path, 'events.jsonl'), events.map((event) => `${JSON.stringify({ step: 4, time, ...event })}\n`).join(''));
  writeFileSync(
    join(path, 'evaluations/step-000004.jsonl'),
    rewards.map((reward, i) => `${JSON.stringify(trajectory(`${ids}${i}`, reward))}\n`).join(''),
  );
  return path;
}

async function compared(paths: readonly string[], metric = 'reward') {
  return compareTrainings(await readComparedTrainings(paths, metric), { metric });
}
async function textOf(paths: readonly string[]) {
  return trainingComparisonText(await compared(paths), 'title', { columns: 100, paint: noPaint });
}

const A = [
  [1, 0, 0, 1, 0, 1],
  [1, 1, 0, 1, 0, 1],
  [0, 0, 0, 1, 0, 0],
];
const B = [
  [1, 1, 1, 1, 0, 1],
  [1, 1, 1, 1, 1, 1],
  [1, 0, 0, 1, 1, 1],
];

describe('compareTrainings', () => {
  it('groups runs that differ in the seed alone, with the mean over seeds and a t interval', async () => {
    const paths = [
      ...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards, middle: 0.9 })),
      ...B.map((rewards, seed) => training({ rate: 0.2, seed, rewards })),
    ];
    const { groups, pairs } = await compared(paths);
    expect(groups.map(({ name, label, runs }) => [name, label, runs.map(({ seed }) => seed)])).toEqual([
      ['A', 'lr 0.1', [0, 1, 2]],
      ['B', 'lr 0.2', [0, 1, 2]],
    ]);
    const [a, b] = [A.map(mean), B.map(mean)];
    expect(groups[0]!.last).toEqual({ ...estimateOverSeeds(a), over: 'seeds' });
    expect(groups[0]!.best).toEqual({ ...estimateOverSeeds([0.9, 0.9, 0.9]), over: 'seeds' });
    expect(groups[0]!.runs[0]).toMatchObject({ best: { step: 2 }, last: { step: 4 }, counts: true });
    expect(pairs[0]!.seeds).toMatchObject({ ...pairedBySeed(a, b), pAdjusted: pairedBySeed(a, b)!.p });
  });

  it('compares rows by their means over seeds, whichever seeds and however many there are', async () => {
    const two = B.slice(0, 2).map((rewards, i) => training({ rate: 0.2, seed: 7 + i, rewards }));
    const { pairs } = await compared([...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })), ...two]);
    const rowMeans = (runs: readonly (readonly number[])[]) => A[0]!.map((_, row) => mean(runs.map((rewards) => rewards[row]!)));
    const differences = rowMeans(B.slice(0, 2)).map((value, i) => value - rowMeans(A)[i]!);
    expect(pairs[0]!.rows).toMatchObject({ rows: 6, difference: { value: expect.closeTo(mean(differences), 12) }, mcnemar: { isExact: true } });
    expect(pairs[0]!.rows!.wins).toBe(differences.filter((d) => d > 1e-9).length);
    expect(pairs[0]!.seeds).toMatchObject({ test: 'welch', p: welch(A.map(mean), B.slice(0, 2).map(mean))!.p });
  });

  it('has the interval over rows for a single seed, named as such, and no test over seeds', async () => {
    const paths = [training({ rate: 0.1, seed: 0, rewards: A[0]! }), training({ rate: 0.2, seed: 0, rewards: B[0]! })];
    const { groups, pairs } = await compared(paths);
    const value = mean(A[0]!);
    expect(groups[0]!.last).toEqual({ value, low: value - 0.1, high: value + 0.1, n: 6, over: 'rows' });
    expect(pairs[0]).toMatchObject({ seeds: null, rows: { difference: { value: expect.closeTo(mean(B[0]!) - value, 12) } } });
    expect(await textOf(paths)).toMatch(/^A +0\.500 +0\.400 to 0\.600 +rows, 1 seed/m);
  });

  it('counts no run that stopped, was killed or has an earlier one of its seed, and says why', async () => {
    const stopped = training({
      rate: 0.1,
      seed: 1,
      rewards: A[1]!,
      finished: false,
      events: [
        { kind: 'started', message: '' },
        { kind: 'stopped', message: 'The loss is not finite.' },
      ],
    });
    const killed = training({
      rate: 0.1,
      seed: 2,
      rewards: A[2]!,
      finished: false,
      events: [
        { kind: 'stopped', message: 'old' },
        { kind: 'resumed', message: '' },
      ],
    });
    const paths = [training({ rate: 0.1, seed: 0, rewards: A[0]! }), stopped, killed, training({ rate: 0.1, seed: 0, rewards: B[0]! })];
    const { groups, pairs } = await compared(paths);
    expect(pairs).toEqual([]);
    expect(groups).toHaveLength(1);
    expect(groups[0]!.last).toMatchObject({ value: mean(A[0]!), over: 'rows' });
    expect(groups[0]!.runs.map(({ state, reason, counts }) => [state, reason, counts])).toEqual([
      ['finished', null, true],
      ['stopped', 'The loss is not finite.', false],
      ['unfinished', 'it has not finished', false],
      ['finished', null, false],
    ]);
    const text = await textOf(paths);
    expect(text).toContain('stopped at step 4 of 4, not counted: The loss is not finite.');
    expect(text).toContain('not finished at step 4 of 4, not counted: it has not finished');
    expect(text).toContain('not counted: an earlier run has its settings and seed');
  });

  it('takes no evaluation that another version played, and says when the last one is not of the last step', async () => {
    const paths = [
      training({ rate: 0.1, seed: 0, rewards: A[0]!, middle: 0.7, versions: [4, 2] }),
      training({ rate: 0.1, seed: 1, rewards: A[1]!, steps: 9 }),
    ];
    const { groups } = await compared(paths);
    expect(groups.flatMap(({ runs }) => runs.map(({ last }) => last?.step))).toEqual([2, 4]);
    const text = await textOf(paths);
    expect(text).toContain('0.700 at step 2, not of its last step, 4');
    expect(text).toContain('0.667 at step 4, not of its last step, 9');
  });

  it('tests no rows where the groups played others, and keeps the test over seeds', async () => {
    const other = B.map((rewards, seed) => training({ rate: 0.2, seed, rewards, ids: 'other' }));
    const paths = [...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })), ...other];
    expect((await compared(paths)).pairs[0]).toMatchObject({ rows: null, seeds: { test: 'paired' } });
    expect(await textOf(paths)).toContain('no test: their last evaluations did not play the same rows');
  });

  it('compares another metric, and refuses one that there is not', async () => {
    const paths = [
      ...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })),
      ...B.map((rewards, seed) => training({ rate: 0.2, seed, rewards })),
    ];
    const { groups, pairs } = await compared(paths, 'em');
    expect(groups[1]!.last!.value).toBeCloseTo(mean(B.map(mean)) / 2, 12);
    expect(pairs[0]!.rows!.difference.value).toBeCloseTo((mean(B.map(mean)) - mean(A.map(mean))) / 2, 12);
    await expect(compared(paths, 'rm')).rejects.toThrow(/No evaluation of these trainings has a metric "rm".*They have reward, em/);
  });

  it('refuses a training that is named twice', async () => {
    const path = training({ rate: 0.1, seed: 0, rewards: A[0]! });
    await expect(compared([path, `${path}/`])).rejects.toThrow(/is named twice/);
  });

  it('corrects both tests for the number of comparisons, and escapes what Markdown would read', async () => {
    const third = A.map((rewards, seed) => training({ rate: 0.3, seed, rewards: rewards.map((r) => 1 - r) }));
    const paths = [
      ...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })),
      ...B.map((rewards, seed) => training({ rate: 0.2, seed, rewards })),
      ...third,
    ];
    const comparison = await compared(paths);
    expect(comparison.pairs.map(({ first, second }) => `${first}${second}`)).toEqual(['AB', 'AC']);
    for (const test of ['seeds', 'rows'] as const) {
      const tests = comparison.pairs.map((pair) => (test === 'seeds' ? pair.seeds! : pair.rows!.mcnemar!));
      expect(Math.max(...tests.map(({ p, pAdjusted }) => pAdjusted / p))).toBeGreaterThan(1);
    }
    expect(trainingComparisonMarkdown(comparison, 'a <b> | c')).toContain('# a &#60;b&#62; \\| c\n\n9 runs in 3 groups');
  });
});
