/** Rollouts of several branches in the files of a run: what is written, and what resumes and readers make of it. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CommandContext } from '../../src/cli/command-line.ts';
import { exportRollouts } from '../../src/cli/export/export-rollouts.ts';
import type { Row } from '../../src/core/dataset.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { readComparedRun } from '../../src/evaluate/compared-run.ts';
import { compareRuns } from '../../src/evaluate/compare-runs.ts';
import { comparisonText } from '../../src/reports/comparison/comparison-text.ts';
import { noPaint } from '../../src/reports/text/paint.ts';
import { exportRun, type ExportOptions } from '../../src/evaluate/export-run.ts';
import { readRollouts } from '../../src/evaluate/read-rollouts.ts';
import { figures } from '../../src/evaluate/summary.ts';
import { recordedRollout } from '../../src/evaluate/recorded-rollout.ts';
import { redactionOf } from '../../src/evaluate/redaction.ts';
import { resultRecord, tokensRecords } from '../../src/evaluate/result-record.ts';
import { resumedPlan } from '../../src/evaluate/resume-run.ts';
import { readRecords } from '../../src/evaluate/run-records.ts';
import { savedRollout } from '../../src/evaluate/saved-rollout.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import type { TokensRow } from '../../src/schemas/demonstration-row.ts';
import type { RolloutExport } from '../../src/schemas/rollout-export.ts';
import { TokensSchema, type WireResult, type WireTokens } from '../../src/schemas/results.ts';
import { branchedRollout } from '../rollouts/branched-rollout.ts';
import { sumsEnvironment, sumsOptions } from './sums-world.ts';
import { writeRun } from './write-run.ts';

const environment = sumsEnvironment({ rows: 2 });
const rows: readonly Row[] = [...environment.eval];
const redaction = redactionOf([]);

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-branches-'));
});
afterEach(() => rm(directory, { recursive: true }));

const options = () => sumsOptions(directory, { environment, numExamples: 2, stateColumns: [] });
const file = (name: string) => join(directory, name);
const linesOf = async (name: string) => (await readFile(file(name), 'utf8')).split(/(?<=\n)/);

const written = (...rollouts: readonly Rollout[]) => writeRun(options(), rollouts);
const branched = (row: number) => branchedRollout({ row: rows[row]! });
const record = (rollout: Rollout, of = redaction): WireResult =>
  resultRecord(rollout, { seed: 0, metricNames: ['right'], stateColumns: [], redaction: of });
const resumed = async () => (await resumedPlan(options(), rows, redaction)).kept.map(({ rolloutId }) => rolloutId);

describe('the lines of a rollout of several branches', () => {
  it('are one in results.jsonl and one for each branch in tokens.jsonl, where a rollout of one branch has none of the new columns', async () => {
    await written(await branched(0), await branchedRollout({ row: rows[1]!, forks: false }));
    const results = (await linesOf('results.jsonl')).map((line) => JSON.parse(line) as WireResult);
    const tokens = (await linesOf('tokens.jsonl')).map((line) => JSON.parse(line) as WireTokens);
    expect(results.map(({ branches }) => branches?.length)).toEqual([6, undefined]);
    expect(tokens.map(({ rollout_id: id, branch, parent }) => [id, branch, parent])).toEqual([
      ['0/0', 0, null],
      ['0/0', 1, 0],
      ['0/0', 2, 1],
      ['0/0', 3, null],
      ['0/0', 4, null],
      ['0/0', 5, null],
      ['1/0', undefined, undefined],
    ]);
    expect('branch' in tokens[6]!).toBe(false);
  });

  it('keep the reward and the role of the only branch of a rollout, for training on the export', async () => {
    const one = await branchedRollout({ row: rows[0]!, forks: false });
    await written(
      { ...one, branches: [{ ...one.branches[0]!, role: 'writer', reward: 0.25 }] },
      await branchedRollout({ row: rows[1]!, forks: false }),
    );
    expect(await resumed()).toEqual(['0/0', '1/0']);
    const lines: RolloutExport[] = [];
    await exportRun(directory, async (line) => void lines.push(JSON.parse(line) as RolloutExport));
    expect(
      lines.map(({ rollout_id: id, branch, branch_count: count, branch_reward: own, role, reward }) => [id, branch, count, own, role, reward]),
    ).toEqual([
      ['0/0', 0, 1, 0.25, 'writer', 1],
      ['1/0', undefined, undefined, undefined, undefined, 1],
    ]);
  });

  it('hold no secret, wherever an agent says it', async () => {
    const hidden = redactionOf(['Summary: Lima.', 'You check facts.', 'Lima is the capital of Peru.']);
    const text = JSON.stringify(record(await branched(0), hidden).branches);
    expect(text).toContain('***');
    expect(text).not.toMatch(/Summary: Lima|You check facts|Lima is the capital/);
  });
});

describe('a resume of a run with branches', () => {
  it('keeps a rollout only with all of its branches', async () => {
    await written(await branched(0), await branched(1));
    expect(await resumed()).toEqual(['0/0', '1/0']);
    const lines = await linesOf('tokens.jsonl');
    await writeFile(file('tokens.jsonl'), lines.toSpliced(3, 1).join(''));
    expect(await resumed()).toEqual(['1/0']);
    expect(await linesOf('tokens.jsonl')).toEqual(lines.slice(6));
    expect(await linesOf('results.jsonl')).toHaveLength(1);
  });

  it('loses and repeats nothing, at whichever byte of a rollout the process was killed', async () => {
    await written(await branched(0), await branched(1));
    const [tokens, results] = [await readFile(file('tokens.jsonl')), await readFile(file('results.jsonl'))];
    const own = (await linesOf('tokens.jsonl')).slice(0, 6).join('').length;
    const ends = [own, own + 1, own + 1000, tokens.lastIndexOf('\n', -2) + 1, tokens.length - 1];
    const first = results.indexOf('\n') + 1;
    for (const end of ends) {
      await writeFile(file('tokens.jsonl'), tokens.subarray(0, end));
      await writeFile(file('results.jsonl'), results.subarray(0, first));
      expect(await resumed()).toEqual(['0/0']);
      expect(await readFile(file('tokens.jsonl'))).toEqual(tokens.subarray(0, own));
    }
    await writeFile(file('tokens.jsonl'), tokens);
    await writeFile(file('results.jsonl'), results.subarray(0, results.length - 5));
    expect(await resumed()).toEqual(['0/0']);
  });
});

describe('readRecords', () => {
  it('takes one line for each branch, leaves out a repeated one, and refuses another of the same branch', async () => {
    const [first, second] = tokensRecords(await branched(0)).map((line) => JSON.stringify(line));
    const read = async (...lines: readonly (string | undefined)[]) => {
      await writeFile(file('tokens.jsonl'), `${lines.join('\n')}\n`);
      const found: (number | undefined)[] = [];
      const { notes } = await readRecords(file('tokens.jsonl'), TokensSchema, ({ branch }) => found.push(branch));
      return { found, notes };
    };
    expect(await read(first, second)).toEqual({ found: [0, 1], notes: [] });
    const repeated = await read(first, second, second);
    expect(repeated.found).toEqual([0, 1]);
    expect(repeated.notes[0]).toMatch(/^line 3 of \S+ repeats line 2 \(branch 1 of rollout "0\/0"\) and was left out$/);
    const error = await read(first, second, second!.replace('"loss_mask":[0', '"loss_mask":[1')).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(/Line 3 of \S+ repeats branch 1 of rollout "0\/0" of line 2 with other contents/);
  });
});

describe('exportRun', () => {
  const exported = async (of: ExportOptions = {}) => {
    const lines: string[] = [];
    const counts = await exportRun(directory, async (line) => void lines.push(line), of);
    return { counts, lines, rollouts: lines.map((line) => JSON.parse(line) as RolloutExport) };
  };

  it('writes a line for each branch, in which exactly its own turns are learned, and counts rollouts and lines', async () => {
    const rollout = await branched(0);
    await written(rollout, await branchedRollout({ row: rows[1]!, forks: false }));
    const { counts, lines, rollouts } = await exported();
    expect(counts).toMatchObject({ exported: 2, branches: 7, withoutTokens: 0 });
    expect(rollouts.map(({ rollout_id: id, branch, parent }) => [id, branch, parent])).toEqual([
      ...rollout.branches.map(({ parent }, branch) => ['0/0', branch, parent]),
      ['1/0', undefined, undefined],
    ]);
    for (const [i, { tokens, generations }] of rollout.branches.entries()) {
      const { token_ids: ids, loss_mask: mask, turn_tokens: turns } = rollouts[i]!;
      expect([ids, mask]).toEqual([[...tokens!.ids], [...tokens!.mask]]);
      expect((turns ?? [tokens!.sampledLength]).length).toBe(turns === undefined ? 1 : generations.length);
    }
    expect(rollouts[6]).not.toHaveProperty('branch');
    const path = file('rollouts.jsonl');
    await writeFile(path, lines.join(''));
    const read: RolloutExport[] = [];
    for await (const each of readRollouts(path)) read.push(each);
    expect(read).toEqual(rollouts);
  });

  it('selects whole rollouts, however many branches they have', async () => {
    const better = { ...(await branched(0)), reward: 0.9 };
    await written(better, { ...(await branchedRollout({ row: rows[0]!, index: 1 })), reward: 0.1 });
    const { counts, rollouts } = await exported({ best: 1 });
    expect(counts).toMatchObject({ exported: 1, branches: 6, unselected: 1 });
    expect(new Set(rollouts.map(({ rollout_id: id }) => id))).toEqual(new Set(['0/0']));
  });

  it('writes supervised rows of one group, in which each sampled token is learned once', async () => {
    const rollout = await branched(0);
    await written(rollout);
    const { lines } = await exported({ asDemonstrations: true });
    const rowsOf = lines.map((line) => JSON.parse(line) as TokensRow);
    expect(rowsOf.map(({ rollout_id: id, branch, group_id: group, reward }) => [id, branch, group, reward])).toEqual(
      rollout.branches.map((_, branch) => ['0/0', branch, '0', 1]),
    );
    const learned = rowsOf.flatMap(({ loss_mask: mask }) => mask!).filter((bit) => bit === 1).length;
    expect(learned).toBe(rollout.generations.reduce((sum, { keptTokens }) => sum + keptTokens!, 0));
  });

  it('has the role and the reward of a branch that has its own', async () => {
    const rollout = await branched(0);
    const branches = rollout.branches.map((branch, i) => (i === 2 ? { ...branch, role: 'checker', reward: 0.25 } : branch));
    await written({ ...rollout, branches });
    const { rollouts } = await exported();
    expect(rollouts.map(({ role, reward, branch_reward: own }) => [role, reward, own])).toEqual(
      branches.map((_, i) => (i === 2 ? ['checker', 1, 0.25] : [undefined, 1, undefined])),
    );
  });

  it('leaves out a rollout of which a branch has no tokens on file, and refuses tokens of a branch that it does not have', async () => {
    await written(await branched(0), await branched(1));
    const lines = await linesOf('tokens.jsonl');
    await writeFile(file('tokens.jsonl'), lines.toSpliced(2, 1).join(''));
    const { counts, rollouts } = await exported();
    expect(counts).toMatchObject({ exported: 1, withoutTokens: 1 });
    expect(rollouts.every(({ rollout_id: id }) => id === '1/0')).toBe(true);
    await writeFile(file('tokens.jsonl'), lines.join('').replace('"branch":2', '"branch":9'));
    await expect(exported()).rejects.toThrow(/rollout 0\/0 in \S+ do not agree: they are of branch 9, and its results have 6/);
  });

  it('says how many rollouts and branches were written', async () => {
    await written(await branched(0));
    const notes: string[] = [];
    const context = { signal: new AbortController().signal, note: (text: string) => notes.push(text) } as unknown as CommandContext;
    await exportRollouts(directory, { output: join(tmpdir(), `vf-branches-${process.pid}.jsonl`) }, context);
    await rm(join(tmpdir(), `vf-branches-${process.pid}.jsonl`));
    expect(notes).toEqual([expect.stringMatching(/^vf-export: 1 rollout in 6 branches written to \S+$/)]);
  });
});

describe('savedRollout', () => {
  it.each(['tokens', 'chat'] as const)('scores a rollout with the segments, messages and branches that it was played with: %s', async (kind) => {
    const played = await branchedRollout({ kind });
    const saved = savedRollout({ result: record(played), row: played.row, played: null, asked: [] });
    const plain = ({ kind: of, text, messages }: Rollout['segments'][number]) => ({ kind: of, text, ...(messages && { messages }) });
    const isOwn = ({ messages }: Rollout['segments'][number]) => messages !== undefined && (messages.length > 1 || messages[0]!.role !== 'user');
    expect(saved.segments.map(plain)).toEqual(
      played.segments.map((segment) => plain(isOwn(segment) ? segment : { kind: segment.kind, text: segment.text })),
    );
    expect(saved.branches.map(({ parent, fork, prompt }) => ({ parent, fork, prompt }))).toEqual(
      played.branches.map(({ parent, fork, prompt }) => ({ parent, fork, prompt })),
    );
    expect(saved.branches.flatMap(({ segments }) => segments)).toEqual(saved.segments);
  });
});

describe('figures', () => {
  const summary = (rollouts: readonly Rollout[]) =>
    figures(
      rollouts.map((rollout) => recordedRollout(record(rollout))),
      { planned: rollouts.length, rolloutsPerExample: 1 },
    );

  it('counts the forks by kind, with the first difference of each, and the share of rollouts that have some', async () => {
    const { forks } = summary([await branched(0), await branched(1), await branchedRollout({ forks: false, index: 1 })]);
    expect(forks).toMatchObject({ rollouts: 2, share: 2 / 3 });
    expect(Object.entries(forks!.kinds).map(([kind, { count }]) => [kind, count])).toEqual(
      ['history', 'retry', 'sample', 'side', 'system'].map((kind) => [kind, 2]),
    );
    expect(forks!.kinds['history']!.example).toContain('"Summary: Lima."');
  });

  it('tells a run with forks from one without in a comparison', async () => {
    await written(await branched(0), await branched(1));
    const plain = join(directory, 'plain');
    await writeRun({ ...options(), outputDir: plain }, await Promise.all(rows.map((row) => branchedRollout({ row, forks: false }))));
    const { sides } = compareRuns([await readComparedRun(plain), await readComparedRun(directory)]);
    expect(sides.map(({ forks }) => forks?.rollouts)).toEqual([undefined, 2]);
    const text = comparisonText(compareRuns([await readComparedRun(plain), await readComparedRun(directory)]), {
      rows: 0,
      columns: 300,
      paint: noPaint,
    });
    expect(text).toContain('forks: 2 rollouts (100 %) are several sequences: history 2, retry 2');
  });

  it('says nothing of forks where there are none', async () => {
    expect('forks' in summary([await branchedRollout({ forks: false })])).toBe(false);
  });
});
