import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { analyse } from '../../src/rounds/analyses.ts';
import { bucketStage, focusStage } from '../../src/rounds/curate-stages.ts';
import { rareSuccesses } from '../../src/rounds/extract-stage.ts';
import { readTraces, type Traces } from '../../src/rounds/read-traces.ts';
import { scoredRollouts } from '../../src/rounds/traced-rollouts.ts';
import { lowPrompts } from '../../src/rounds/verify-stage.ts';
import { rolloutLines, traceText } from './trace-lines.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vf-traced-rollouts-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function rolloutsOf(rollouts: Parameters<typeof traceText>[0]) {
  const path = join(folder, 'trace.jsonl');
  await writeFile(path, traceText(rollouts));
  return (await readTraces([path])).rollouts;
}

/** A success, two rollouts whose format is invalid, so that the judge was not asked, and one of phase 1. */
const MIXED = [
  { prompt: 'a', index: 0, judge: 1 },
  { prompt: 'a', index: 1, judge: null, format: 0, reward: 0 },
  { prompt: 'a', index: 2, judge: null, format: 0, reward: 0 },
  { prompt: 'a', index: 0, judge: null, reward: 1, run: 'phase-1' },
];

describe('scoredRollouts', () => {
  it('counts a rollout that the judge was not asked about as 0 in a run with a judge, and leaves out a run without one', async () => {
    const rollouts = await rolloutsOf(MIXED);
    expect(scoredRollouts(rollouts, 'judge').map(({ rollout, score }) => [rollout.run, score])).toEqual([
      ['run-1', 1],
      ['run-1', 0],
      ['run-1', 0],
    ]);
    expect(scoredRollouts(rollouts, 'reward').map(({ score }) => score)).toEqual([1, 1, 0, 0]);
  });

  it('makes a prompt whose other rollouts have no valid format one that seldom succeeds', async () => {
    const rollouts = await rolloutsOf(MIXED);
    const [{ successes, successRate, kept }, ...others] = rareSuccesses(rollouts, { output: 'x.jsonl' }) as [
      ReturnType<typeof rareSuccesses>[number],
    ];
    expect({ successes, successRate, kept: kept.length, others }).toEqual({ successes: 1, successRate: 1 / 3, kept: 1, others: [] });
  });
});

describe('rareSuccesses', () => {
  it('takes nothing from a run that asks a judge and had nothing to ask about: no rollout has a valid format', async () => {
    const rollouts = await rolloutsOf([0, 1].map((index) => ({ prompt: 'a', index, judge: null, judgeFailed: 0, format: 0, reward: 0 })));
    expect(rareSuccesses(rollouts, { output: 'x.jsonl' })).toEqual([]);
    expect(analyse(rollouts)).toMatchObject({ judged: 0, judgeMean: null, wrongWithGoldenPages: null, successRates: { '0': 1, '1': 0 } });
  });
});

describe('analyse', () => {
  it('takes the mean of the judge over the rollouts that it scored', async () => {
    const analysis = analyse(await rolloutsOf(MIXED));
    expect(analysis).toMatchObject({ rollouts: 4, judged: 1, judgeMean: 1, wrongWithGoldenPages: 0 });
    expect(analysis.successRates).toMatchObject({ 'to 0.5': 1, '1': 0 });
  });

  it.each([
    ['neither requests nor answers', 'without', ['search.request', 'search.response']],
    ['requests alone, as an environment may report them,', 'with', ['search.response']],
    ['answers alone', 'with', ['search.request']],
  ])('takes a rollout that has %s for one %s a search', async (_, side, lost) => {
    const path = join(folder, 'trace.jsonl');
    const lines = rolloutLines({ prompt: 'a', index: 0 }).map((line) => JSON.parse(line) as { event: string });
    const left = lines.map((line) => (lost.includes(line.event) ? { ...line, event: 'other' } : line));
    await writeFile(path, left.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const { rollouts } = await readTraces([path], { withTexts: false });
    expect(analyse(rollouts)).toMatchObject({ rollouts: 1, zeroSearch: side === 'without' ? 1 : 0 });
  });
});

describe('assertJudged', () => {
  it('makes every stage that a judge decides refuse a trace without its scores, and name the option for the reward', async () => {
    const rollouts = await rolloutsOf([{ prompt: 'a', index: 0, judge: null, reward: 0 }]);
    const traces = { rollouts } as Traces;
    const rows = [{ id: 'a', fields: { id: 'a' }, line: '{"id":"a"}', place: 'rows.jsonl:1' }];
    const refusal = (option: string) => `No rollout of this trace has a judge score; use ${option}`;
    expect(() => rareSuccesses(rollouts, { output: 'x.jsonl' })).toThrow(refusal('--success reward'));
    expect(() => bucketStage(traces, rows, { measure: 'judge' })).toThrow(refusal('--measure reward'));
    expect(() => focusStage(traces, rows, { measure: 'judge', output: 'x.jsonl' })).toThrow(refusal('--measure reward'));
    expect(() => lowPrompts(traces, rows)).toThrow(refusal('--measure reward'));
    expect(lowPrompts(traces, rows, { measure: 'reward' })).toMatchObject([{ id: 'a', score: 0, suspicion: 'right_pages_zero_score' }]);
  });
});
