import { describe, expect, it } from 'vitest';
import { renderSummary, type SummaryView } from '../../../src/reports/evaluation/render-summary.ts';
import { noPaint, type Paint } from '../../../src/reports/text/paint.ts';
import { cellWidth } from '../../../src/reports/text/terminal-text.ts';
import type { Estimate, Summary } from '../../../src/schemas/summary.ts';

const of = (value: number, low: number | null = null, high: number | null = null): Estimate => ({ value, low, high, n: 200 });

const summary: Summary = {
  envId: 'search-r1',
  model: 'Qwen/Qwen2.5-3B-Instruct',
  policyKind: 'tokens',
  directory: `${process.cwd()}/outputs/evals/search-r1--Qwen--Qwen2.5-3B-Instruct/0a1b2c3d`,
  complete: true,
  rollouts: { planned: 200, recorded: 200, finished: 197, errored: 3 },
  examples: 50,
  rolloutsPerExample: 4,
  reward: of(0.305, 0.24, 0.371),
  turns: of(2.11, 1.99, 2.23),
  metrics: {
    em: of(0.305, 0.24, 0.371),
    em_model_authored: of(0.29, 0.226, 0.355),
    retrieval_hit: of(0.614, 0.545, 0.68),
    format_valid: of(0.868, 0.815, 0.907),
    searches: of(1.24, 1.11, 1.37),
    turns: of(2.11, 1.99, 2.23),
    em_without_answer: of(0),
    subem: of(0.355, 0.29, 0.424),
  },
  stopConditions: { completed: 180, max_turns_reached: 17, has_error: 3 },
  truncated: of(0.045, 0.02, 0.08),
  errors: { PolicyError: 3 },
  errorExamples: { PolicyError: '[POST] http://localhost:8000/v1/completions: 500 \u001b[31minternal\u001b[0m error\nwith a second line' },
  tokens: { input: 1234567, output: 98765, cached: 400000, inputPerRollout: 6172.8, outputPerRollout: 493.8 },
  guessedStops: 0,
  prefixBreaks: 0,
  wallSeconds: 187.4,
  rolloutsPerSecond: 1.067,
  passAtK: { 1: of(0.305, 0.24, 0.371), 2: of(0.41, 0.33, 0.49), 4: of(0.52, 0.41, 0.63) },
  passAllK: { 1: of(0.305, 0.24, 0.371), 2: of(0.2, 0.14, 0.27), 4: of(0.12, 0.06, 0.19) },
  passThreshold: 0.5,
  sample: {
    exampleId: 'test_12',
    rolloutIndex: 0,
    prompt: [
      {
        role: 'user',
        content: `Answer the given question. ${'You must conduct reasoning inside <think> and </think> first. '.repeat(9)}Question: who wrote hamlet?\n`,
      },
    ],
    segments: [
      { kind: 'model', text: '<think> I need to \u202elook\u202c it up. </think>\n<search> who wrote hamlet </search>' },
      { kind: 'observation', text: `\n\n<information>Doc 1(Title: "Hamlet") ${'A play by William Shakespeare. '.repeat(40)}</information>\n\n` },
      { kind: 'model', text: '<answer> William Shakespeare </answer>\u001b[2J' },
    ],
    answer: { target: ['William Shakespeare', 'Shakespeare'] },
    reward: 1,
    stopCondition: 'completed',
  },
  notices: ['nq-mini is a sample of Natural Questions over 8,346 passages: its numbers are not comparable with published NQ.'],
};

const view: SummaryView = {
  columns: 80,
  paint: noPaint,
  abbreviated: false,
  verbose: false,
  rewardNames: ['search_r1', 'format'],
  displays: new Map([
    ['em', { label: 'exact match' }],
    ['em_model_authored', { label: "  in the model's own text" }],
    ['retrieval_hit', { label: 'retrieval hit' }],
    ['format_valid', { label: 'valid format' }],
    ['searches', { label: 'searches per rollout', isCount: true }],
    ['em_without_answer', { remark: 'have an answer that the model did not write.' }],
  ]),
  setup: [
    ['policy', 'Qwen/Qwen2.5-3B-Instruct at http://localhost:8000/v1 (token ids in and out, window 32,768, its own chat template, log-probs raw)'],
    ['data', 'nq-mini: 50 of 1,209 rows, in order × 4 rollouts'],
    ['sampling', 'temperature 1, top_p 1, seed 0'],
  ],
  next: [{ why: 'play the failed rollouts again', command: 'npx vf-eval search-r1 -n 50 -r 4 -R outputs/x' }],
};

const escape = '\u001b';
const painted: Paint = (style, text) => `${escape}<${style}>${text}${escape}</>`;

describe('renderSummary', () => {
  it('reads like this in 80 columns without colour', async () => {
    await expect(renderSummary(summary, view)).toMatchFileSnapshot('../../golden/cli/summary.txt');
  });

  it('says the same with colour', () => {
    const plain = renderSummary(summary, { ...view, paint: painted }).replaceAll(new RegExp(`${escape}<\\w+>|${escape}</>`, 'g'), '');
    expect(plain).toBe(renderSummary(summary, view));
  });

  it.each([40, 80, 100])('stays inside %i columns', (columns) => {
    const lines = renderSummary(summary, { ...view, columns, next: [] }).split('\n');
    const results = lines.findIndex((line) => line.startsWith('results'));
    for (const line of lines.slice(0, results)) expect(cellWidth(line)).toBeLessThanOrEqual(columns);
  });

  it('lets nothing through that a terminal would act on', () => {
    const spoil = (value: unknown): unknown => {
      if (typeof value === 'string') return `${value}\u001b[31m\u009b2J\u202e\u0007\r`;
      if (Array.isArray(value)) return value.map(spoil);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, spoil(inner)]));
    };
    const names = { metrics: { 'm\u001b[1m': of(1) }, errors: { 'E\u001b[1m': 1 }, stopConditions: { 'x\u009b': 1 } };
    const text = renderSummary({ ...(spoil(summary) as Summary), ...names }, view);
    expect(text).toContain('\\x1b[31m');
    // oxlint-disable-next-line no-control-regex -- what is looked for
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
  });

  it('shows only figures with -A and the whole transcript with -v', () => {
    const short = renderSummary(summary, { ...view, abbreviated: true });
    expect(short).not.toContain('One rollout');
    expect(short).toContain('exact match');
    const whole = renderSummary(summary, { ...view, verbose: true });
    expect(whole).not.toContain('left out');
    expect(whole.match(/A play by/g)!.length).toBe(40);
  });

  it('does not repeat the reward under the name of its only term', () => {
    const named = {
      ...summary,
      metrics: { ...summary.metrics, search_r1: of(0.305, 0.24, 0.371), other: of(0.305, 0.24, 0.371), weighed: of(0.61) },
    };
    expect(renderSummary(named, view)).toMatch(/^search_r1 /m);
    const shown = renderSummary(named, { ...view, rewardNames: ['search_r1'] });
    expect(shown).not.toContain('search_r1 ');
    expect(shown).toMatch(/^other /m);
    expect(renderSummary(named, { ...view, rewardNames: ['weighed'] })).toMatch(/^weighed /m);
  });

  it('costs no more for a rollout of 10 MB', () => {
    const long = { ...summary.sample!, segments: [{ kind: 'model', text: '\ud83d\ude42x '.repeat(2_500_000) }] };
    const text = renderSummary({ ...summary, sample: long }, view);
    expect(text.length).toBeLessThan(5_000);
    expect(text).toMatch(/… \d+ characters left out/);
    expect(text).not.toContain('\\ud83d');
  });

  it('shows the reward of each task, and a metric with a remark only where it is not 0', () => {
    const tasks = { sums: { finished: 3, reward: of(0.75, 0.5, 0.9), metrics: {} } };
    const metrics = { ...summary.metrics, em_without_answer: of(0.01) };
    const text = renderSummary({ ...summary, tasks, metrics }, view);
    expect(text).toMatch(/^reward .*\n {2}sums {2,}0\.750/m);
    expect(text).toContain('em_without_answer');
    expect(renderSummary(summary, view)).not.toContain('em_without_answer');
  });

  it('shows for each of several tasks its headlines and the metrics whose names another task has too', () => {
    const one = { finished: 3, reward: of(0.75), metrics: { right: of(0.75), length: of(3), own: of(9), turns: of(2), grade: of(0.5) } };
    const tasks = { sums: one, notes: { finished: 3, reward: of(0.25), metrics: { right: of(0.125), length: of(77), turns: of(1) } } };
    const displays = new Map([['grade', { isHeadline: true, label: 'mean grade' }]]);
    const text = renderSummary({ ...summary, tasks }, { ...view, displays });
    const block = text.slice(text.indexOf('\n  sums'), text.indexOf('\nturns per')).replaceAll(/(?<=\S) {2,}/g, ' ');
    expect(block).toBe('\n  sums 0.750\n    length 3.000\n    mean grade 0.500\n  notes 0.250\n    right 0.125\n    length 77.00');
    expect(renderSummary({ ...summary, tasks: { sums: one } }, view)).not.toMatch(/^ {4}length/m);
  });

  it('says that nothing was scored where every rollout failed', () => {
    const failed = { ...summary, reward: null, turns: null };
    const text = renderSummary({ ...failed, metrics: {}, passAtK: {}, passAllK: {}, sample: null }, view);
    expect(text).toContain('No rollout finished, so there is nothing to score.');
    expect(text).toContain('3 × PolicyError: [POST]');
  });

  it('names a run that was stopped', () => {
    const rollouts = { planned: 200, recorded: 23, finished: 23, errored: 0 };
    expect(renderSummary({ ...summary, complete: false, rollouts }, view)).toContain('stopped early: 23 of 200 rollouts');
  });

  it('has one line of forks, only where there are some', () => {
    const forks = {
      rollouts: 3,
      share: 0.015,
      kinds: { history: { count: 4, example: 'message 3 (user) was "a\u001b[31m" and is "b"' }, tools: { count: 1, example: '' } },
    };
    const text = renderSummary({ ...summary, forks }, view).replace(/\s+/g, ' ');
    expect(text).toContain('forks 3 rollouts (2 %) are several sequences: history 4, tools 1. The first (history): message 3 (user) was "a');
    expect(text).not.toContain('\u001b');
    expect(renderSummary(summary, view)).not.toContain('forks');
  });
});
