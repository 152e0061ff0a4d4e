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
  /** Reward of an evaluation before the first step. */
  readonly start?: number;
  /** Reward of an evaluation at step 2. */
  readonly middle?: number;
  readonly steps?: number;
  readonly finished?: boolean;
  readonly events?: readonly object[];
  /** Version that the last step left, and that which played the last evaluation. */
  readonly versions?: readonly [left: number, played: number];
  readonly ids?: string;
  /** Of the environment's table; an id of its own and further keys. */
  readonly environment?: string;
  /** Digests of the files that its settings name. */
  readonly inputs?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly name?: string;
}

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'vf-trainings-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
let made = 0;
let named = 0;

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

function training({
  rate,
  seed,
  rewards,
  start,
  middle,
  steps = 4,
  finished = true,
  events = [],
  versions = [4, 4],
  ids = 'r',
  environment = 'id = "search-r1"',
  inputs = {},
  name = `n${++named}`,
}: Run): string {
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
      inputs,
    }),
  );
  writeFileSync(
    join(path, 'config.toml'),
    `name = "${name}"\nseed = ${seed}\nsteps = ${steps}\noutput_dir = "o${made}"\n[environment]\n${environment}\n[optimizer]\nlearning_rate = ${rate}\n`,
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
    ...(start === undefined ? [] : [evaluation(0, start, 0)]),
    ...(middle === undefined ? [] : [{ kind: 'step', step: 2, time, policy_version: 2 }, evaluation(2, middle, 2)]),
    { kind: 'step', step: 4, time, policy_version: versions[0], sampled_tokens: 100, trained_tokens: 70, step_seconds: 2 },
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

/** With its wrapped lines joined. */
const flat = (text: string) => text.replace(/\s+/g, ' ');

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

  it('prints settings that do not fit the table whole below it', async () => {
    const names = ['short', 'a run whose name alone is longer than the column of the settings has room for'];
    const paths = names.map((name, i) => training({ rate: 0.1 * (i + 1), seed: 0, rewards: A[0]!, name }));
    const text = flat(await textOf(paths));
    expect(text).toContain(`B set ${names[1]} (lr 0.2) `);
    expect(text).not.toContain('A set');
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
    expect(await textOf(paths)).toMatch(/^A +– +0\.500 +0\.400 to 0\.600 +rows, 1 seed/m);
  });

  it('makes no seed of a group of a run whose settings or files changed between its steps, and names what it was trained with', async () => {
    const event = (step: number, change: object) => ({ kind: 'settings_changed', step, message: '', changes: [change] });
    const rate = { key: 'optimizer.learning_rate', before: 0.01, after: 0.001 };
    const credit = { key: 'files.algorithm.advantage.use', before: 'c.ts 0cee2717', after: 'c.ts 5d41402a' };
    const run = (seed: number, ...events: readonly object[]) => training({ rate: 0.001, seed, rewards: A[0]!, events });
    const { groups } = await compared([
      run(0),
      run(1, event(2, rate)),
      run(2, event(2, credit)),
      // Before the first step and after the last one nothing was trained otherwise.
      run(3, event(0, rate)),
      run(4, event(2, { key: 'evaluation.examples', before: 1, after: 2 }), event(4, { key: 'steps', before: 3, after: 4 })),
      training({ rate: 0.002, seed: 5, rewards: A[0]!, events: [event(4, { ...rate, before: 0.001, after: 0.002 })] }),
      // The change of step 4 was lost with its checkpoint: the steps after 2 were repeated with it.
      run(6, event(4, rate), { kind: 'resumed', step: 2, message: '' }),
      run(7, { kind: 'settings_changed', step: 2, message: 'Changed steps from 3 to 4; optimizer.learning_rate from 0.01 to 0.001' }),
    ]);
    expect(groups.map(({ runs }) => runs.map(({ seed }) => seed))).toEqual([[0, 3, 4, 5], [1, 6, 7], [2]]);
    expect(groups[1]!.settings).toMatchObject({ 'optimizer.learning_rate': '0.01 in steps 1-2, then 0.001' });
    expect(groups[2]!.settings).toMatchObject({ 'files.algorithm.advantage.use': 'c.ts 0cee2717 in steps 1-2, then c.ts 5d41402a' });
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

  it('tests nothing where the groups played other rows, and says how many they share', async () => {
    const other = B.map((rewards, seed) => training({ rate: 0.2, seed, rewards, ids: 'other' }));
    const paths = [...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })), ...other];
    expect((await compared(paths)).pairs[0]).toMatchObject({ rows: null, seeds: null });
    expect(flat(await textOf(paths))).toContain('seeds no test: the means are of different rows');
    expect(flat(await textOf(paths))).toContain('A and B did not play the same held-out rows: 0 rows are in both, of 6 and 6.');
    const few = B.map((rewards, seed) => training({ rate: 0.3, seed, rewards: rewards.slice(0, 2) }));
    const partly = await compared([...paths.slice(0, 3), ...few]);
    expect(partly.pairs[0]).toMatchObject({ rows: null, seeds: null, noRowsTest: expect.stringContaining('2 rows are in both, of 6 and 2') });
    expect(trainingComparisonMarkdown(partly, 'x')).toContain('no test over rows: A and B did not play the same held-out rows');
  });

  it('compares rows within groups that played the same ones, also where the first group played others', async () => {
    const first = A.map((rewards, seed) => training({ rate: 0.1, seed, rewards, ids: 'other' }));
    const same = [A, B].flatMap((runs, i) => runs.map((rewards, seed) => training({ rate: 0.2 + i / 10, seed, rewards })));
    const comparison = await compareTrainings(await readComparedTrainings([...first, ...same], 'reward'), { allPairs: true });
    expect(comparison.pairs.map(({ rows }) => rows?.rows ?? null)).toEqual([null, null, 6]);
  });

  it('tests the seeds and says why it has no rows where the rollouts of an evaluation cannot be read', async () => {
    const paths = [A, B].flatMap((runs, i) => runs.map((rewards, seed) => training({ rate: 0.1 + i / 10, seed, rewards })));
    rmSync(join(paths[4]!, 'evaluations'), { recursive: true });
    expect((await compared(paths)).pairs[0]).toMatchObject({ rows: null, seeds: { test: 'paired' } });
    expect(flat(await textOf(paths))).toMatch(/rows no test: the rollouts of an evaluation of B cannot be read: .*step-000004\.jsonl/);
  });

  it.each([
    [
      'environments',
      'id = "self-play"',
      'A is evaluated on search-r1 and B on self-play, and rewards of different environments have different scales',
    ],
    ['data sets', 'id = "search-r1"\neval_args = { dataset = "nq" }', 'A is evaluated on its default data set and B on the data set "nq"'],
  ])('tests nothing between trainings of different %s', async (_, environment, why) => {
    const paths = [
      ...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })),
      ...B.map((rewards, seed) => training({ rate: 0.1, seed, rewards, environment })),
    ];
    const comparison = await compared(paths);
    expect(comparison.pairs[0]).toMatchObject({ notComparable: why, seeds: null, rows: null });
    expect(flat(await textOf(paths))).toContain(`not comparable: ${why}. No test.`);
    expect(trainingComparisonMarkdown(comparison, 'x')).toContain('- B − A: not comparable: A is evaluated on ');
  });

  it.each([
    ['the module', 'id = "./env.ts"', 'environment.id', 'env.ts'],
    ['a file that an argument names', 'id = "./env.ts"\nargs = { answers = "a.json" }', 'environment.args.answers', 'a.json'],
  ])('tests nothing between trainings that other contents of %s scored, also where all settings are equal', async (_, environment, key, file) => {
    const scored = (digest: string) => ({ environment, inputs: { [key]: { [file]: digest }, 'model.path': { 'tokenizer.json': digest } } });
    const paths = [
      ...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards, ...scored('0cee2717ab') })),
      ...B.map((rewards, seed) => training({ rate: 0.1, seed, rewards, ...scored('5d41402aab') })),
    ];
    const why = `A and B were scored by different versions of their environment (${file} changed), and rewards of different environments have different scales`;
    const { groups, pairs } = await compared(paths);
    expect(pairs).toMatchObject([{ notComparable: why, seeds: null, rows: null }]);
    expect(groups.map(({ label }) => label)).toEqual([expect.stringContaining(`${file} 0cee2717`), expect.stringContaining(`${file} 5d41402a`)]);
    expect(flat(await textOf(paths))).toContain(`not comparable: ${why}. No test.`);
    expect((await compared(paths.slice(0, 3))).groups).toHaveLength(1);
  });

  it('tests trainings whose arguments name different files, and those of other models', async () => {
    const scored = (name: string) => ({
      environment: `id = "./env.ts"\nargs = { corpus = "${name}/index" }`,
      inputs: { 'environment.args.corpus': { 'manifest.json': name }, 'model.path': { 'tokenizer.json': name } },
    });
    const paths = [A, B].flatMap((runs, i) => runs.map((rewards, seed) => training({ rate: 0.1, seed, rewards, ...scored(`c${i}`) })));
    expect((await compared(paths)).pairs).toMatchObject([{ notComparable: null, seeds: { test: 'paired' }, rows: { rows: 6 } }]);
  });

  it('names arguments that may change what earns reward, and tests all the same', async () => {
    const environment = 'id = "search-r1"\nargs = { format_score = 0.2 }';
    const paths = [
      ...A.map((rewards, seed) => training({ rate: 0.1, seed, rewards })),
      ...B.map((rewards, seed) => training({ rate: 0.1, seed, rewards, environment })),
    ];
    expect((await compared(paths)).pairs[0]).toMatchObject({ notComparable: null, seeds: { test: 'paired' }, rows: { rows: 6 } });
    expect(flat(await textOf(paths))).toContain('arguments of the environment differ (format_score); if they change what earns reward');
  });

  it('says that seeds agree in place of an interval, and tests nothing that does not vary', async () => {
    const [low, high] = [
      [1, 0, 0, 1],
      [1, 1, 1, 1],
    ];
    const paths = [low, high].flatMap((rewards, i) => [0, 1, 2].map((seed) => training({ rate: 0.1 + i / 10, seed, rewards })));
    const { groups, pairs } = await compared(paths);
    expect(groups.map(({ last }) => [last!.low, last!.n])).toEqual([
      [null, 3],
      [null, 3],
    ]);
    expect(pairs[0]!.seeds).toBeNull();
    const text = await textOf(paths);
    expect(text).toMatch(/^B +– +1\.000 {3}seeds agree +3 seeds/m);
    expect(flat(text)).toContain('seeds no test: the difference is the same for every seed');
    expect(text).not.toMatch(/([01]\.\d{3}) to \1/);
    expect(trainingComparisonMarkdown(await compared(paths), 'x')).toContain('| 1.000 | seeds agree | 3 seeds |');
  });

  it('shows the start and the gain over it, and counts no start as a best version', async () => {
    const paths = A.map((rewards, seed) => training({ rate: 0.1, seed, rewards, start: 0.9, middle: 0.6 }));
    const { groups } = await compared(paths);
    const last = A.map(mean);
    expect(groups[0]).toMatchObject({
      start: { value: expect.closeTo(0.9, 12), low: null },
      gain: { value: expect.closeTo(mean(last) - 0.9, 12), over: 'seeds' },
      best: { value: expect.closeTo(mean(last.map((value) => Math.max(0.6, value))), 12) },
      beatStart: 0,
    });
    const text = await textOf(paths);
    expect(text).toMatch(/^A +0\.900 +0\.444 {3}.* -0\.456 +none {3}/m);
    expect(flat(text)).toContain('from the start to the last evaluation; no version beat the start');
    expect(text).toMatch(/0\.500 at step 4, 0\.900 at the start; no version beat the start/);
    expect(flat(await textOf(A.map((rewards, seed) => training({ rate: 0.1, seed, rewards, start: 0.45 }))))).toContain(
      '; 2 of 3 seeds beat the start',
    );
  });

  it('counts no run of which only the start was evaluated, or not this metric', async () => {
    const start = training({ rate: 0.1, seed: 0, rewards: A[0]!, start: 0.9, versions: [4, 0] });
    const { groups } = await compared([start, training({ rate: 0.1, seed: 1, rewards: A[1]! })]);
    expect(groups[0]!.last).toMatchObject({ n: 6, over: 'rows' });
    expect(await textOf([start, training({ rate: 0.1, seed: 1, rewards: A[1]! })])).toContain('not counted: only its start was evaluated');
  });

  it('calls groups by the name that their runs were given, and sums what all took', async () => {
    const warm = A.map((rewards, seed) => training({ rate: 0.1, seed, rewards, name: 'warm start' }));
    const paths = [...warm, training({ rate: 0.2, seed: 0, rewards: B[0]!, finished: false })];
    const { groups, totals } = await compared(paths);
    expect(groups[0]).toMatchObject({ run: 'warm start', label: 'lr 0.1', environment: 'search-r1' });
    expect(totals).toEqual({ tokens: { sampled: 400, trained: 280 }, seconds: 8 });
    const text = await textOf(paths);
    expect(text).toMatch(/^A .* warm start \(lr 0\.1\)$/m);
    // Their folders are named otherwise.
    expect(text).toMatch(/^A seed 0 .* {2}warm start {2}\S+$/m);
    expect(text).toMatch(/^total +8\.0 s, 400 tokens sampled, 280 trained$/m);
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
