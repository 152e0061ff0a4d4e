import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import type { EvaluationOptions } from '../../src/evaluate/evaluation-options.ts';
import { sumsClient, sumsEnvironment, sumsOptions } from '../evaluate/sums-world.ts';
import { writeTraining } from '../viewing/written-runs.ts';
import { runInProcess } from './in-process.ts';

let directory: string;
const at = (name: string) => join(directory, name);

/** Right in rollout 0 of even rows and in rollout 1 of odd ones. */
const half = () => sumsClient();
const allRight = () => sumsClient({ turns: ({ index, key }) => (index === 0 ? 'hm, ' : `=${2 * Number(key!.split('/')[0])}`) });

async function play(name: string, changes: Partial<EvaluationOptions> = {}): Promise<void> {
  await recordEvaluation(sumsOptions(at(name), { environment: sumsEnvironment({ rows: 10 }), rolloutsPerExample: 2, ...changes }));
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-compare-'));
  await play('half', { client: half() });
  await play('right', { client: allRight(), seed: 8 });
  await play('few', { client: allRight(), numExamples: 3, rolloutsPerExample: 1 });
});
afterAll(() => rm(directory, { recursive: true }));

const vfCompare = (...args: string[]) => runInProcess('vf-compare', args, { cwd: directory, env: { NO_COLOR: '1' } });

/** A copy of a run with every line of its results changed. */
async function changed(
  name: string,
  from: string,
  change: (line: Record<string, unknown>, i: number) => Record<string, unknown> | string | null,
): Promise<string> {
  await cp(at(from), at(name), { recursive: true });
  const lines = (await readFile(at(`${name}/results.jsonl`), 'utf8')).trimEnd().split('\n');
  const texts = lines.map((line, i) => change(JSON.parse(line) as Record<string, unknown>, i)).filter((line) => line !== null);
  await writeFile(at(`${name}/results.jsonl`), texts.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
  return name;
}

interface Figures {
  readonly rows: number;
  readonly sides: readonly {
    readonly run: string | null;
    readonly finished: number;
    readonly failed: number;
    readonly other_rows: number;
    readonly mean: unknown;
    readonly pass_at_k: object;
    readonly changes: readonly string[];
  }[];
  readonly pairs: readonly {
    readonly pairs: number;
    readonly rows: number;
    readonly unpaired: number;
    readonly difference: { readonly value: number; readonly low: number | null; readonly high: number | null } | null;
    readonly mcnemar: { readonly p: number; readonly p_adjusted: number; readonly gained: number; readonly lost: number } | null;
    readonly wins: number;
    readonly losses: number;
    readonly ties: number;
    readonly metrics: Record<string, { readonly value: number }>;
    readonly row_differences: readonly { readonly example_id: number; readonly first: number; readonly second: number }[];
  }[];
}

async function figures(...args: string[]): Promise<Figures> {
  const { code, stdout, stderr } = await vfCompare(...args, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  // No figure may be missing: JSON writes NaN as null.
  expect(stdout).not.toMatch(/NaN|Infinity/);
  return JSON.parse(stdout) as Figures;
}

describe('vf-compare', { timeout: 60_000 }, () => {
  it('compares nothing between evaluations that different versions of the environment scored', async () => {
    const scored = async (name: string, digests: readonly string[], scorings?: readonly object[]) => {
      await cp(at('half'), at(name), { recursive: true });
      const file = at(`${name}/metadata.json`);
      const metadata = JSON.parse(await readFile(file, 'utf8')) as { sessions: object[] };
      const sessions = digests.map((digest) => ({ ...metadata.sessions[0], inputs: { env_id: { 'env.ts': digest } } }));
      await writeFile(file, JSON.stringify({ ...metadata, sessions, scorings }));
      return name;
    };
    const [old, corrected, mixed] = [
      await scored('old', ['0cee']),
      await scored('corrected', ['5d41']),
      await scored('mixed-versions', ['0cee', '5d41']),
    ];
    const why = 'were scored by different versions of their environment (env.ts changed)';
    const { stdout, code } = await vfCompare(old, corrected, mixed, '--all-pairs');
    expect(code).toBe(0);
    for (const pair of ['A and B', 'A and C', 'B and C']) expect(stdout.replace(/\s+/g, ' ')).toContain(`not comparable: ${pair} ${why}`);
    expect(stdout).not.toMatch(/McNemar|better in/);
    expect((await vfCompare(old, corrected, '--markdown')).stdout).toContain(`not comparable: A and B ${why.split(' (')[0]!}`);
    expect((await vfCompare(old, 'half')).stdout).toContain('better in');
    const again = await scored('again', ['0cee'], [{ at: '2100-01-01', package_version: '0', scored: 20, changed: 20, settings: {} }]);
    expect((await vfCompare(corrected, again)).stdout).toContain('better in');
  });

  it('shows the names of the runs, with the settings that differ where two have the same', async () => {
    const named = (name: string, seed: number) => play(`${name} ${seed}`, { client: half(), seed, run: { ...sumsOptions('', {}).run, name } });
    await named('a\u202e|<b>', 7);
    await named('same', 7);
    await named('same', 8);
    const runs = ['a\u202e|<b> 7', 'same 7', 'same 8'];
    const { stdout } = await vfCompare(...runs);
    expect(stdout).toMatch(/^A {2}a\\u202e\|<b> {2}\S/m);
    expect(stdout).toMatch(/^C {2}same \(seed 8\) {2}\S/m);
    expect(stdout).toMatch(/^C \(same \(seed 8\)\) against A \(a\\u202e\|<b>\)$/m);
    expect((await figures(...runs)).sides.map(({ run }) => run)).toEqual(['a\u202e|<b>', 'same (seed 7)', 'same (seed 8)']);
    expect((await vfCompare(...runs, '--markdown')).stdout).toContain('\n| A: a\\\\u202e\\|&#60;b&#62; | sums |');
    expect((await figures('half', 'right')).sides.map(({ run }) => run)).toEqual([null, null]);
  });

  it('prints means, the paired difference, the test and who wins where', async () => {
    const { code, stdout, stderr } = await vfCompare('half', 'right', '--rows', '2');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('sums  10 rows in common');
    expect(stdout).toContain('seed: 7 → 8');
    expect(stdout).toMatch(/^A +20 +0 +0\.500 .* 0\.500 +1\.000$/m);
    expect(stdout).toMatch(/^difference \+0\.500 {2}\(no interval: all 10 rows have this difference\)$/m);
    expect(stdout).toMatch(/^McNemar +p = 0\.0020; only B has 1 in 10, only A in 0$/m);
    expect(stdout).toMatch(/^rows +B better in 10, A better in 0, as good in 0$/m);
    expect(stdout).toContain('no change  pieces');
    expect(stdout).toMatch(/^0 +0\.500 +1\.000 {2}What is 0 \+ 0\?$/m);
    expect(stdout).toContain('and 8 rows more that differ: --rows 10, or --json');
  });

  it('gives the same figures as JSON and as a table of Markdown', async () => {
    const { pairs, sides } = await figures('half', 'right');
    expect(pairs[0]).toMatchObject({
      pairs: 20,
      rows: 10,
      unpaired: 0,
      difference: { value: 0.5, low: null, high: null },
      wins: 10,
      losses: 0,
      ties: 0,
    });
    expect(pairs[0]!.mcnemar).toEqual({ gained: 10, lost: 0, p: 2 / 2 ** 10, p_adjusted: 2 / 2 ** 10, is_exact: true });
    expect(sides.map(({ pass_at_k: passes }) => passes)).toMatchObject([
      { 1: { value: 0.5 }, 2: { value: 1 } },
      { 1: { value: 1 }, 2: { value: 1 } },
    ]);
    const { stdout } = await vfCompare('half', 'right', '--markdown');
    expect(stdout).toContain('| B − A | 20 | +0.500 | – | 0.0020 | 10 | 0 | 0 |');
    for (const line of stdout.split('\n').filter((text) => text.startsWith('| '))) expect(line.endsWith(' |')).toBe(true);
  });

  it('compares a run with itself: no difference, nothing not a number', async () => {
    const { pairs } = await figures('half', 'half');
    expect(pairs[0]).toMatchObject({
      difference: { value: 0, low: null, high: null },
      mcnemar: { p: 1 },
      wins: 0,
      losses: 0,
      ties: 10,
      row_differences: [],
    });
  });

  it('compares three runs with the first or all with each other, and corrects p for their number', async () => {
    const first = await figures('half', 'right', 'half');
    expect(first.pairs.map((pair) => [pair.mcnemar!.p, pair.mcnemar!.p_adjusted])).toEqual([
      [2 / 2 ** 10, 4 / 2 ** 10],
      [1, 1],
    ]);
    expect((await figures('half', 'right', 'half', '--all-pairs')).pairs.map(({ difference }) => difference!.value)).toEqual([0.5, 0, -0.5]);
  });

  it('leaves out failed and missing rollouts with their partners, rows of one run alone, and says how many', async () => {
    const failed = { error: 'RewardError', message: 'no', error_chain_repr: '', error_chain_str: '', phase: 'scoring', retryable: true };
    await changed('failed', 'right', (line) => (line['rollout_id'] === '4/1' ? { ...line, reward: null, error: failed } : line));
    const { sides, pairs } = await figures('half', 'failed');
    expect(sides[1]).toMatchObject({ finished: 19, failed: 1 });
    expect(pairs[0]).toMatchObject({ pairs: 19, rows: 10, unpaired: 1 });
    const few = await figures('half', 'few');
    expect(few.rows).toBe(3);
    expect(few.sides.map(({ other_rows: rows }) => rows)).toEqual([7, 0]);
    expect(few.pairs[0]).toMatchObject({ pairs: 3, rows: 3, unpaired: 3 });
    expect((await vfCompare('half', 'few')).stdout).toContain('7 rows left out: another run lacks them');
  });

  it('has no interval for one row, and no difference where nothing has a partner', async () => {
    const one = (row: number) => changed(`row-${row}`, 'half', (line) => (line['example_id'] === row ? line : null));
    const { pairs } = await figures(await one(2), 'right');
    expect(pairs[0]).toMatchObject({ pairs: 2, rows: 1, difference: { value: 0.5, low: null, high: null } });
    const apart = await changed('index-0', 'half', (line) => (line['rollout_index'] === 0 ? line : null));
    const other = await changed('index-1', 'half', (line) => (line['rollout_index'] === 1 ? line : null));
    expect((await figures(apart, other)).pairs[0]).toMatchObject({ pairs: 0, difference: null, mcnemar: null, wins: 0, ties: 0 });
    expect((await vfCompare(apart, other)).stdout).toContain('nothing can be compared');
  });

  it("compares a metric, without McNemar's test where values are not 0 or 1", async () => {
    await changed('longer', 'half', (line, i) => ({ ...line, metrics: { ...(line['metrics'] as object), pieces: i } }));
    const { pairs } = await figures('half', 'longer', '--metric', 'pieces');
    expect(pairs[0]!.mcnemar).toBeNull();
    expect(pairs[0]!.difference!.low!).toBeLessThan(pairs[0]!.difference!.value);
    expect(Object.keys(pairs[0]!.metrics)).toEqual(['right', 'em']);
  });

  it('names a line that repeats another, which does not count, and ignores a torn last line', async () => {
    await changed('twice', 'half', (line) => line);
    const text = await readFile(at('twice/results.jsonl'), 'utf8');
    await writeFile(at('twice/results.jsonl'), `${text}${text.split('\n')[6]}\n{"example_id":`);
    const { sides, pairs } = await figures('half', 'twice');
    expect(sides[1]).toMatchObject({
      finished: 20,
      changes: [expect.stringMatching(/^line 21 of \S+ repeats line 7 \(rollout "\S+"\) and was left out$/)],
    });
    expect(pairs[0]).toMatchObject({ pairs: 20, difference: { value: 0 } });
  });

  it('shows hostile text as text, in the terminal and in Markdown', async () => {
    const hostile = '\u001b[31m<img src=x onerror=alert(1)> | [x](https://example.org) `a` @team';
    await changed('hostile', 'half', (line) => ({ ...line, prompt: [{ role: 'user', content: hostile }], answer: 'same' }));
    await changed('hostile-right', 'right', (line) => ({ ...line, prompt: [{ role: 'user', content: hostile }], answer: 'same' }));
    const [text, markdown] = await Promise.all([vfCompare('hostile', 'hostile-right'), vfCompare('hostile', 'hostile-right', '--markdown')]);
    expect(text.stdout).toContain('\\x1b[31m<img');
    const cell = markdown.stdout.split('\n').find((line) => line.includes('onerror'))!;
    expect(cell).not.toMatch(/<|https:|@|[^\\]\[|[^\\]`/);
    expect(cell.match(/(?<!\\)\|/g)).toHaveLength(5);
  });

  it.concurrent.each<[string, string[], RegExp]>([
    ['one run', ['half'], /needs at least two runs/],
    ['no directory', ['half', 'none'], /The directory none does not exist/],
    [
      'an unknown metric',
      ['half', 'right', '--metric', 'pices'],
      /half has no metric "pices" \(did you mean pieces\?\)\. It has em, pieces, reward, right\./,
    ],
    ['two forms', ['half', 'right', '--json', '--markdown'], /exclude each other/],
    ['a seed that is not a number', ['half', 'right', '--seed', 'x'], /--seed must be an integer from 0 to 4294967295, got "x"/],
  ])('answers %s with one line and exit code 2', async (_, args, message) => {
    const { code, stdout, stderr } = await vfCompare(...args);
    expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
    expect(stderr).toMatch(message);
  });

  it('refuses runs of other rows in one line, unless ids alone are to pair them', async () => {
    await changed('other', 'right', (line) => ({ ...line, answer: 'something else' }));
    await changed('strange', 'right', (line) => ({
      ...line,
      example_id: `s${String(line['example_id'])}`,
      group_id: `s${String(line['group_id'])}`,
    }));
    await changed('empty', 'right', () => null);
    const refusals = await Promise.all(['other', 'strange', 'empty'].map((name) => vfCompare('half', name)));
    for (const { code, stdout, stderr } of refusals)
      expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
    expect(refusals[0]!.stderr).toMatch(
      /other has other rows than half: 10 of 10 ids stand for different rows, such as "\d" with "\d+" and "something else"/,
    );
    expect(refusals[1]!.stderr).toContain('no id is in both');
    expect(refusals[2]!.stderr).toContain('empty has no recorded rollout yet');
    expect((await figures('half', 'other', '--by-id')).pairs[0]!.pairs).toBe(20);
  });

  it('refuses to pair evaluations of trainings by ids alone across environments', async () => {
    for (const name of ['mine', 'theirs', 'data']) writeTraining(at(name));
    const configured = async (name: string, to: string) =>
      await writeFile(at(`${name}/config.toml`), (await readFile(at(`${name}/config.toml`), 'utf8')).replace('id = "written"', to));
    await configured('theirs', 'id = "another"');
    await configured('data', 'id = "written"\nargs = { dataset = "nq" }');
    const evaluation = (name: string) => `${name}/evaluations/step-000002.jsonl`;
    const refusals = await Promise.all(['theirs', 'data'].map((name) => vfCompare(evaluation('mine'), evaluation(name))));
    for (const { code, stdout, stderr } of refusals)
      expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
    expect(refusals[0]!.stderr).toMatch(/mine\/evaluations\/step-000002\.jsonl is evaluated on written and theirs\/.* on another.* --by-id\.$/m);
    expect(refusals[1]!.stderr).toMatch(/on its default data set and data\/.* on the data set "nq"\./);
    expect((await vfCompare(evaluation('mine'), evaluation('theirs'), '--by-id')).code).toBe(0);
    expect((await vfCompare(evaluation('mine'), 'mine/evaluations/step-000000.jsonl')).code).toBe(0);
  });
});
