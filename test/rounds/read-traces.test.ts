import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { analyse } from '../../src/rounds/analyses.ts';
import { bucketStage, traceCounts } from '../../src/rounds/curate-stages.ts';
import { demonstration } from '../../src/rounds/demonstration.ts';
import { readTraces } from '../../src/rounds/read-traces.ts';
import { rareSuccesses } from '../../src/rounds/extract-stage.ts';
import { lowPrompts } from '../../src/rounds/verify-stage.ts';
import { readRows } from '../../src/rounds/row-files.ts';
import { rolloutLines, traceText } from './trace-lines.ts';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vf-read-traces-'));
  path = join(folder, 'trace.jsonl');
});
afterEach(() => rm(folder, { recursive: true }));

const SOME = [
  { prompt: 'a', index: 0 },
  { prompt: 'a', index: 1, judge: 0, reward: 0.2, pages: ['a_2', 'a_1'] },
  { prompt: 'b', index: 0, reward: null },
  { prompt: 'b', index: 1, ndcg: 0.5 },
];

describe('readTraces', () => {
  it('puts rollouts together with their scores, pages, answers and calls', async () => {
    await writeFile(path, traceText(SOME));
    const { rollouts, counts } = await readTraces([path]);
    expect(counts).toEqual({ rollouts: 3, failed: 1, repeated: 0, incomplete: 0, evaluations: 0, torn: 0 });
    expect(rollouts.map(({ prompt, index, judge, ndcg, pages, answer }) => [prompt, index, judge, ndcg, pages, answer])).toEqual([
      ['a', 0, 1, 1, ['a_1'], 'an answer'],
      ['a', 1, 0, 1, ['a_2', 'a_1'], 'an answer'],
      ['b', 1, 1, 0.5, ['b_1'], 'an answer'],
    ]);
    expect(rollouts[1]!.calls.map(({ name, ms, waitMs }) => [name, ms, waitMs])).toEqual([
      ['search', 10, null],
      ['search', 20, null],
      ['generator', 500, 20],
      ['judge', 40, 0],
    ]);
    expect(demonstration(rollouts[0]!, {})).toEqual([
      { role: 'system', content: 'Search.' },
      { role: 'user', content: 'Question: What is a?' },
      { role: 'assistant', content: '<think>I look.</think>\n<search>find a_1</search>' },
      { role: 'user', content: 'Page a_1' },
      { role: 'assistant', content: '<think>I look.</think>\n<bbox>[1, 2, 30, 40]</bbox>' },
      { role: 'user', content: 'Crop' },
      { role: 'assistant', content: '<think>I look.</think>\n<search_complete>true</search_complete>' },
    ]);
  });

  it('reads the same from a trace and a copy of it: no line counts twice', async () => {
    await writeFile(path, traceText(SOME));
    const once = await readTraces([path]);
    const copy = join(folder, 'copy.jsonl');
    await writeFile(copy, traceText(SOME));
    expect(await readTraces([path, copy])).toEqual(once);
  });

  it('reads the same from lines in any order {shuffles}', async () => {
    const lines = traceText(SOME).trimEnd().split('\n');
    await writeFile(path, traceText(SOME));
    const { rollouts } = await readTraces([path]);
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(lines, { minLength: lines.length }), async (shuffled) => {
        await writeFile(path, `${shuffled.join('\n')}\n`);
        expect((await readTraces([path])).rollouts).toEqual(rollouts);
      }),
      { numRuns: 30 },
    );
  });

  it('takes the last play of a rollout, leaves out evaluations and plays that are not whole, and numbers those of several steps', async () => {
    const torn = rolloutLines({ prompt: 'c', index: 0 }).slice(0, -2);
    const text = [
      ...rolloutLines({ prompt: 'a', index: 0, judge: 0 }),
      ...rolloutLines({ prompt: 'a', index: 0, judge: 0.5, play: 2000 }),
      ...rolloutLines({ prompt: 'a', index: 0, judge: 0.7, step: 2 }),
      ...rolloutLines({ prompt: 'a', index: 0, judge: 1, evaluation: true }),
      ...torn,
      ...rolloutLines({ prompt: 'a', index: 1, judge: 0.1 }),
    ];
    await writeFile(path, `${text.join('\n')}\n{"ts":1,"event":"mod`);
    const { rollouts, counts } = await readTraces([path]);
    expect(rollouts.map(({ index, judge }) => [index, judge])).toEqual([
      [0, 0.5],
      [1, 0.1],
      [2, 0.7],
    ]);
    expect(counts).toEqual({ rollouts: 3, failed: 0, repeated: 1, incomplete: 1, evaluations: 1, torn: 1 });
  });

  it.each([
    ['text that is not JSON', 'oops', 'Line 2 of the trace PATH is not JSON; delete it'],
    ['a list', '[1]', 'Line 2 of the trace PATH is not a JSON object'],
    ['an object of something else', '{"a": 1}', 'it has neither "event" nor "event_type"'],
    ['a line without its run', '{"event": "crop", "ts": 1}', 'Line 2 of the trace PATH is not a line of a trace: '],
    ['a line whose turn is text', JSON.stringify({ ...JSON.parse(rolloutLines({ prompt: 'a', index: 0 })[0]!), turn: 'x' }), 'turn'],
  ])('refuses %s in one line that names file and line', async (_, line, message) => {
    await writeFile(path, `${rolloutLines({ prompt: 'a', index: 0 })[0]}\n${line}\n`);
    await expect(readTraces([path])).rejects.toThrow(message.replace('PATH', path));
  });

  it('refuses lines that are nested too deeply, and traces without a rollout that has a reward', async () => {
    await writeFile(path, `{"event":"crop","x":${'['.repeat(100_000)}${']'.repeat(100_000)}}\n`);
    await expect(readTraces([path])).rejects.toThrow(`Line 1 of the trace ${path} is nested more than 64 levels deep; delete it`);
    await writeFile(path, traceText([{ prompt: 'a', index: 0, reward: null }]));
    await expect(readTraces([path])).rejects.toThrow(`No rollout with a reward is in ${path} (1 failed, 0 incomplete, 0 of evaluations)`);
  });

  it('refuses a trace that is not there, and one without lines', async () => {
    await expect(readTraces([path])).rejects.toThrow(`The file ${path} does not exist`);
    await writeFile(path, '');
    await expect(readTraces([path])).rejects.toThrow(`The trace ${path} is empty`);
  });

  it('without texts has the same scores and no texts', async () => {
    await writeFile(path, traceText(SOME));
    const [whole, slim] = [await readTraces([path]), await readTraces([path], { withTexts: false })];
    const scores = ({ rollouts }: typeof whole) =>
      rollouts.map(({ id, prompt, index, judge, ndcg, reward, pages, answer, calls }) => [
        id,
        prompt,
        index,
        judge,
        ndcg,
        reward,
        pages,
        answer,
        calls,
      ]);
    expect(scores(slim)).toEqual(scores(whole));
    expect(JSON.stringify(slim.rollouts)).not.toContain('I look.');
    expect(JSON.stringify(slim.rollouts)).not.toContain('Page a_1');
  });

  it("keeps the texts of the wanted prompts alone, of its own traces and of DDAI's logs", async () => {
    const turns = ['p', 'q'].flatMap((uid) => [
      { uid, event_type: 'model.plan', turn_idx: 0, text: `secret of ${uid}`, ts: 1, sample_idx: 0 },
      { uid, event_type: 'rm.flash.detail', query: 'Q?', judge_score: 1, final_score: 1, ts: 2, sample_idx: 0 },
    ]);
    await writeFile(path, [...rolloutLines({ prompt: 'a', index: 0 }), ...rolloutLines({ prompt: 'b', index: 0 })].join('\n'));
    const log = join(folder, 'log.jsonl');
    await writeFile(log, turns.map((event) => JSON.stringify(event)).join('\n'));
    const { rollouts } = await readTraces([path, log], { withTexts: (prompt) => prompt === 'b' || prompt === 'q' });
    const texts = (prompt: string) => JSON.stringify(rollouts.filter((rollout) => rollout.prompt === prompt));
    expect(texts('b')).toContain('Page b_1');
    expect(texts('a')).not.toContain('Page a_1');
    expect(texts('q')).toContain('secret of q');
    expect(texts('p')).not.toContain('secret of p');
  });

  it("keeps the epochs of DDAI's log apart, and the logs of two runs: their prompts and indices are the same", async () => {
    const epoch = (ts: number, judge: number) => [
      { event_type: 'model.plan', turn_idx: 0, text: `<think>t</think><search>${ts}</search>`, ts },
      { event_type: 'tool.search.response', results: [{ image_file: `p_${ts}.jpg` }], ts: ts + 1 },
      { event_type: 'model.plan', turn_idx: 1, text: '<think>t</think><search_complete>true</search_complete>', ts: ts + 2 },
      { event_type: 'rm.flash.detail', query: 'Q?', judge_score: judge, final_score: judge, ts: ts + 3 },
    ];
    const [first, second] = [epoch(10, 0), epoch(20, 1)].map((events) =>
      [0, 1].flatMap((i) => events.map((e) => ({ uid: 'p', sample_idx: i, ...e }))),
    );
    const text = (events: readonly object[]) => events.map((event) => `${JSON.stringify(event)}\n`).join('');
    await writeFile(path, text([...second!, ...first!]));
    const { rollouts, counts } = await readTraces([path]);
    expect(counts.rollouts).toBe(4);
    expect(rollouts.map(({ index, judge, events }) => [index, judge, events.length])).toEqual([
      [0, 0, 3],
      [2, 1, 3],
      [1, 0, 3],
      [3, 1, 3],
    ]);
    expect(new Set(rollouts.map(({ id }) => id)).size).toBe(4);
    const other = join(folder, 'other.jsonl');
    await writeFile(path, text(first!));
    await writeFile(other, text(second!));
    expect((await readTraces([path, other])).rollouts).toEqual(rollouts);
  });

  it("counts a line of DDAI's log once, where it was copied into another or into itself", async () => {
    const turns = [0, 1].flatMap((i) => [
      { event_type: 'model.plan', turn_idx: 0, text: `<think>t</think><search>${i}</search>`, ts: 1, sample_idx: i },
      { event_type: 'tool.search.response', results: [{ image_file: 'p_1.jpg' }], ts: 2, sample_idx: i },
      { event_type: 'model.plan', turn_idx: 1, text: '<think>t</think><search_complete>true</search_complete>', ts: 3, sample_idx: i },
      { event_type: 'rm.flash.detail', query: 'Q?', judge_score: i, final_score: i, ts: 4, sample_idx: i },
    ]);
    const log = turns.map((event) => `${JSON.stringify({ uid: 'p', ...event })}\n`).join('');
    await writeFile(path, log);
    const whole = await readTraces([path]);
    expect(whole.rollouts.map(({ events }) => events.length)).toEqual([3, 3]);
    const copy = join(folder, 'copy.jsonl');
    await writeFile(copy, log);
    expect(await readTraces([path, copy])).toEqual(whole);
    // The copy that was made while the run wrote has a part of it, and no line feed at its end.
    await writeFile(path, `${log.split('\n').slice(0, 5).join('\n')}\n${log}${log.trimEnd()}`);
    expect(await readTraces([path])).toEqual(whole);
  });

  it("reads DDAI's log, phase 1's scores too, in any order of lines", async () => {
    const events = [
      { event_type: 'run.start', ts: 0 },
      { event_type: 'model.plan', uid: 'p', sample_idx: 0, turn_idx: 0, text: '<think>t</think><search>q</search>', ts: 1 },
      { event_type: 'tool.search.response', uid: 'p', sample_idx: 0, results: [{ image_file: '/a/p_1.jpg' }], ts: 2 },
      {
        event_type: 'rm.phase1.detail',
        uid: 'p',
        sample_idx: 0,
        ndcg: 0.63,
        final_score: 0.667,
        format_score: 1,
        retrieved_basenames: ['p_1'],
        reference_basenames: ['p_1'],
        ts: 3,
      },
    ];
    await writeFile(
      path,
      `${events
        .toReversed()
        .map((event) => JSON.stringify(event))
        .join('\n')}\n`,
    );
    const { rollouts } = await readTraces([path]);
    expect(rollouts).toMatchObject([{ prompt: 'p', ndcg: 0.63, reward: 0.667, format: true, pages: ['p_1'], golden: ['p_1'], opening: null }]);
    expect(rollouts[0]!.events.map(({ kind }) => kind)).toEqual(['turn', 'pages']);
  });
});

describe('the values of a trace', () => {
  const changed = (change: (line: Record<string, unknown>) => Record<string, unknown>) => {
    const lines = rolloutLines({ prompt: 'a', index: 0 });
    const reward = JSON.parse(lines.at(-1)!) as Record<string, unknown>;
    return [...lines.slice(0, -1), JSON.stringify(change(reward))];
  };
  const withMetric = (name: string, value: unknown) =>
    changed((reward) => ({ ...reward, metrics: { ...(reward['metrics'] as object), [name]: value } }));

  it.each([
    ['a metric that is text', withMetric('ndcg', '0.5'), '"metrics.ndcg" must be a finite number of at least 0, got "0.5"'],
    ['a metric below 0', withMetric('ndcg', -5), '"metrics.ndcg" must be a finite number of at least 0, got -5'],
    [
      'a metric that is larger than a number can be',
      withMetric('ndcg', 'BIG').map((line) => line.replace('"BIG"', '1e400')),
      '"metrics.ndcg" must be a finite number of at least 0, got "1e400"',
    ],
    ['a judge that is true', withMetric('judge', true), '"metrics.judge" must be a finite number of at least 0, got true'],
    ['metrics that are a list', changed((reward) => ({ ...reward, metrics: [1] })), '"metrics" must be an object of numbers, got [1]'],
    ['a reward that is text', changed((reward) => ({ ...reward, reward: '1' })), '"reward" must be a finite number, or null, got "1"'],
    ['an index that is text', changed((reward) => ({ ...reward, rollout_index: '0' })), '"rollout_index" must be an integer of at least 0, got "0"'],
  ])('are refused in one line with %s', async (_, lines, problem) => {
    await writeFile(path, `${lines.join('\n')}\n`);
    await expect(readTraces([path])).rejects.toThrow(ConfigError);
    await expect(readTraces([path])).rejects.toThrow(`Line ${lines.length} of the trace ${path}: ${problem};`);
  });

  it('may lack metrics: those that a stage needs are missed by that stage', async () => {
    await writeFile(path, `${changed((reward) => ({ ...reward, metrics: undefined })).join('\n')}\n`);
    const traces = await readTraces([path]);
    const { rollouts } = traces;
    expect(rollouts).toMatchObject([{ judge: null, ndcg: null, format: null, reward: 1 }]);
    const rows = [{ id: 'a', fields: { id: 'a' }, line: '{"id":"a"}', place: 'rows.jsonl:1' }];
    const missed = 'Rollout 0 of the prompt "a" in this trace has no metric "ndcg"; ';
    expect(() => bucketStage(traces, rows)).toThrow(`${missed}use --measure reward`);
    expect(() => rareSuccesses(rollouts, { success: 'reward', successOnly: true, output: 'x' })).toThrow(`${missed}leave out --success-only`);
    expect(() => lowPrompts(traces, rows, { measure: 'reward', low: 1 })).toThrow(`${missed}verify needs one`);
    expect(bucketStage(traces, rows, { measure: 'reward' }).outputs[1]!.lines).toHaveLength(1);
    expect(rareSuccesses(rollouts, { success: 'reward', maxRate: 1, output: 'x' })).toHaveLength(1);
    expect(analyse(rollouts).ndcgMean).toBeNull();
  });
});

describe("DDAI's log", () => {
  const turns: readonly Readonly<Record<string, unknown>>[] = [
    { event_type: 'model.plan', turn_idx: 0, text: '<think>t</think><search>q</search>' },
    { event_type: 'tool.search.response', results: [{ image_file: 'p_1.jpg' }] },
    { event_type: 'model.plan', turn_idx: 1, text: '<think>t</think><bbox>[1, 2, 3, 4]</bbox>' },
    { event_type: 'tool.bbox.result', crop_path: 'c.jpg' },
    { event_type: 'rm.flash.detail', query: 'Q?', judge_score: 1, final_score: 1, ndcg: 0.5 },
  ];
  const logged = (times: readonly unknown[]) => turns.map((event, i) => ({ uid: 'p', sample_idx: 0, ...event, ts: times[i] }));
  const text = (events: readonly object[]) => events.map((event) => `${JSON.stringify(event)}\n`).join('');

  it.each([
    ['ISO times', (i: number) => `2026-01-01T00:00:0${i}.000Z`],
    ['ISO times of microseconds', (i: number) => `2026-01-01T00:00:00.00000${i}+00:00`],
    ["times as Python's datetime writes them", (i: number) => `2026-01-01 00:00:0${i}`],
    ['times of several zones', (i: number) => `2026-01-01T0${i}:00:0${i}+0${i}00`],
    ['seconds', (i: number) => 1_767_225_600 + i / 1e6],
  ])('with %s is read the same in any order of lines {shuffles}', async (_, time) => {
    const events = logged(turns.map((__, i) => time(i)));
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(events, { minLength: events.length }), async (shuffled) => {
        await writeFile(path, text(shuffled));
        const { rollouts } = await readTraces([path]);
        expect(rollouts[0]!.events.map(({ kind }) => kind)).toEqual(['turn', 'pages', 'turn', 'crop']);
      }),
      { numRuns: 20 },
    );
  });

  it.each([
    ['a time that is none', { ts: 'yesterday' }, '"ts" must be a time, seconds or ISO 8601 such as 2026-01-31T12:00:00Z, got "yesterday"'],
    [
      'a month that is none',
      { ts: '2026-13-01T00:00:00Z' },
      '"ts" must be a time, seconds or ISO 8601 such as 2026-01-31T12:00:00Z, got "2026-13-01',
    ],
    ['a timestamp that is a list', { ts: undefined, timestamp: [1] }, '"timestamp" must be a time'],
    ['no time', { ts: undefined }, '"ts" must be a time, seconds or ISO 8601 such as 2026-01-31T12:00:00Z, got nothing'],
    ['an NDCG that is text', { ndcg: '0.63' }, '"ndcg" must be a finite number of at least 0, got "0.63"'],
    ['a judge that is text', { judge_score: '1' }, '"judge_score" must be a finite number of at least 0, got "1"'],
    ['no score', { final_score: undefined }, '"final_score" must be a finite number, got nothing'],
  ])('is refused in one line with %s', async (_, change, problem) => {
    const events = logged([1, 2, 3, 4, 5]);
    await writeFile(path, text([...events.slice(0, -1), { ...events.at(-1), ...change }]));
    await expect(readTraces([path])).rejects.toThrow(ConfigError);
    await expect(readTraces([path])).rejects.toThrow(`Line 5 of the trace ${path}: ${problem}`);
  });

  it('counts events that do not say which rollout they belong to', async () => {
    const events = logged([1, 2, 3, 4, 5]);
    await writeFile(path, text([...events, { ...turns[0], ts: 6, sample_idx: 0 }, { ...turns[0], ts: 7, uid: 'p' }]));
    const { counts } = await readTraces([path]);
    expect(counts).toMatchObject({ rollouts: 1, unplaced: 2 });
    expect(traceCounts(counts)).toMatchObject({ rollouts: 1, events_unplaced: 2 });
    await writeFile(path, text(events));
    expect(traceCounts((await readTraces([path])).counts)).not.toHaveProperty('events_unplaced');
  });
});

describe('readRows', () => {
  it.each([
    [
      'rows that are nested too deeply',
      `{"id":"a","x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
      'rows.jsonl:1: "x" is nested more than 64 levels deep; give flatter rows',
    ],
    [
      'a row that is a list in lists',
      `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
      'rows.jsonl is not an object, but a list. Write one JSON object per line',
    ],
    ['a row that is a list', '[1]', 'rows.jsonl is not an object, but a list. Write one JSON object per line'],
    ['two rows of one id', '{"id":"a"}\n{"uid":"a"}', 'rows.jsonl:2 has the id "a", as '],
  ])('refuses %s', async (_, lines, message) => {
    await writeFile(join(folder, 'rows.jsonl'), `${lines}\n`);
    await expect(readRows(join(folder, 'rows.jsonl'))).rejects.toThrow(message);
  });
});
