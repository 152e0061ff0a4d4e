/** Rollouts of several branches in the files of a run: what is written, and what resumes and readers make of it. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Row } from '../../src/core/dataset.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { figures } from '../../src/evaluate/summary.ts';
import { recordedRollout } from '../../src/evaluate/recorded-rollout.ts';
import { redactionOf } from '../../src/evaluate/redaction.ts';
import { resultRecord, tokensRecords } from '../../src/evaluate/result-record.ts';
import { resumedPlan } from '../../src/evaluate/resume-run.ts';
import { readRecords } from '../../src/evaluate/run-records.ts';
import { RunWriter } from '../../src/evaluate/run-writer.ts';
import { savedRollout } from '../../src/evaluate/saved-rollout.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { TokensSchema, type WireResult, type WireTokens } from '../../src/schemas/results.ts';
import { branchedRollout } from '../rollouts/branched-rollout.ts';
import { sumsEnvironment, sumsOptions } from './sums-world.ts';

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

async function written(...rollouts: readonly Rollout[]): Promise<void> {
  const writer = await RunWriter.open(options(), { rows, kept: [], sessions: [], startedAt: new Date().toISOString() }, redaction);
  for (const rollout of rollouts) writer.record(rollout);
  await writer.saveMetadata();
  await writer.close();
}

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
      ['history', 'retry', 'sample', 'system', 'tools'].map((kind) => [kind, 2]),
    );
    expect(forks!.kinds['history']!.example).toContain('"Summary: Lima."');
  });

  it('says nothing of forks where there are none', async () => {
    expect('forks' in summary([await branchedRollout({ forks: false })])).toBe(false);
  });
});
