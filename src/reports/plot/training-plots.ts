/** Plots of a training run from its metrics: the reward, an overview, and a comparison of runs. */
import type { MetricsRow } from '../../trainer/training-observer.ts';
import type { EvaluationLabel } from '../training/evaluation-label.ts';
import { metricValue } from '../../trainer/training-observer.ts';
import { evaluationsOf } from '../../trainer/records/usable-version.ts';
import { creditMetrics } from '../training/credit-metrics.ts';
import { supervisedCurves } from '../training/supervised-curves.ts';
import { COLORS, RUN_COLORS } from './chart-theme.ts';
import {
  type ChartLine,
  type ChartPoint,
  type ChartStack,
  type LineChart,
  chartPanel,
  labelRoom,
  lineChart,
  stackEnds,
  svgDocument,
} from './line-chart.ts';

/** Wide enough for a page, and readable in a README at 800 px. */
const WIDTH = 800;
const COLUMNS = 2;

/** Pixels. */
const COMPARISON_HEIGHT = 420;

export interface PlotLook {
  /** Name of the run. */
  readonly name: string;
  /** @default held-out */
  readonly evaluationLabel?: EvaluationLabel;
}

/** `reward.svg`: reward of every training batch with its moving mean, and held-out reward with its intervals. */
export function rewardPlot(rows: readonly MetricsRow[], { name, evaluationLabel = 'held-out' }: PlotLook): string {
  return lineChart({ ...rewardChart(rows, evaluationLabel), xLabel: 'training step' }, { width: WIDTH, height: 420, heading: `${name}: reward` });
}

/** `loss.svg`: loss of every supervised step, and of the demonstrations held out. */
export function lossPlot(rows: readonly MetricsRow[], { name }: PlotLook): string {
  return lineChart({ ...lossChart(rows), xLabel: 'training step' }, { width: WIDTH, height: 420, heading: `${name}: loss` });
}

/** True if a training batch or an evaluation has a reward. */
export function hasRewards(rows: readonly MetricsRow[]): boolean {
  return rows.some((row) => row.kind !== 'validation' && metricValue(row, 'reward_mean') !== null);
}

/** True if a supervised step or a validation has a loss. */
export function hasDemonstrations(rows: readonly MetricsRow[]): boolean {
  const { training, validation } = supervisedCurves(rows);
  return training.length + validation.length > 0;
}

/** `overview.svg`: small charts of reward, entropy, KL, log-prob difference, gradient, length and time; of supervised steps, of the loss and learning rate. */
export function overviewPlot(rows: readonly MetricsRow[], { name, evaluationLabel = 'held-out' }: PlotLook): string {
  const drawn = overviewCharts(rows, evaluationLabel);
  // All charts have the same x axis; columns reach beyond the last step.
  const steps = [...rows.map(({ step }) => step), ...drawn.flatMap(({ stack }) => (stack === undefined ? [] : stackEnds(stack)))];
  const charts = drawn.map((chart, i, all) => ({
    ...chart,
    xLabel: i + COLUMNS < all.length ? null : 'training step',
    ...(steps.length === 0 ? {} : { steps: [Math.min(...steps), Math.max(...steps)] as const }),
  }));
  const panel = { width: WIDTH / COLUMNS, height: 190 };
  const panels = charts.map((chart, i) => {
    // Charts in one column share their x axis, so they need the same room for labels.
    const room = Math.max(...charts.filter((_, other) => other % COLUMNS === i % COLUMNS).map(labelRoom));
    const corner = { x: (i % COLUMNS) * panel.width, y: 40 + Math.floor(i / COLUMNS) * panel.height };
    return chartPanel(chart, { ...corner, ...panel, height: panel.height + (chart.xLabel === null ? 0 : 18), labelRoom: room });
  });
  return svgDocument({ width: WIDTH, height: 40 + Math.ceil(charts.length / COLUMNS) * panel.height + 22, heading: name }, ...panels);
}

export interface ComparedRun {
  readonly label: string;
  readonly rows: readonly MetricsRow[];
  /** A run that must not learn: drawn dashed, in its own colour. */
  readonly control?: boolean;
}

export interface ComparisonOptions {
  readonly heading: string;
  /** Values that the runs should reach or stay below. */
  readonly goals?: readonly { readonly value: number; readonly label: string }[];
}

/** Several runs in one figure: a line of held-out reward each, over the reward of their training batches. */
export function compareRuns(runs: readonly ComparedRun[], { heading, goals = [] }: ComparisonOptions): string {
  return lineChart(comparison(runs, goals), { width: WIDTH, height: COMPARISON_HEIGHT, heading });
}

/** As `compareRuns`, with a chart for each group of runs, one below the other. */
export function compareGroups(
  groups: readonly (Omit<ComparisonOptions, 'heading'> & { readonly title: string; readonly runs: readonly ComparedRun[] })[],
  { heading }: Pick<ComparisonOptions, 'heading'>,
): string {
  const charts = groups.map(({ title, runs, goals = [] }) => ({ ...comparison(runs, goals), title }));
  const room = Math.max(...charts.map(labelRoom));
  const height = COMPARISON_HEIGHT - 34;
  const panels = charts.map((chart, i) => chartPanel(chart, { x: 0, y: 34 + i * height, width: WIDTH, height, labelRoom: room }));
  return svgDocument({ width: WIDTH, height: 34 + groups.length * height, heading }, ...panels);
}

function comparison(runs: readonly ComparedRun[], goals: NonNullable<LineChart['goals']>): LineChart {
  const colors = runColors(runs);
  const lines = runs.flatMap(({ label, rows, control = false }, i): ChartLine[] => [
    { label: null, color: colors[i]!, points: series(rows, 'step', 'reward_mean'), width: 1, opacity: 0.3 },
    { label, color: colors[i]!, points: heldOutPoints(rows, { intervals: false }), width: 1.6, mark: markSize(rows, 2.6), dashed: control },
  ]);
  const all = runs.flatMap(({ rows }) => rows);
  const title = 'mean reward, held-out rows (faint: training batches)';
  return { title, lines, goals, range: rewardRange(all), xLabel: 'training step' };
}

function runColors(runs: readonly ComparedRun[]): string[] {
  let learners = 0;
  return runs.map(({ control = false }) => (control ? COLORS.vermilion : RUN_COLORS[learners++ % RUN_COLORS.length]!));
}

function rewardChart(rows: readonly MetricsRow[], evaluations: EvaluationLabel): Omit<LineChart, 'xLabel'> {
  const training = series(rows, 'step', 'reward_mean');
  const window = smoothingWindow(training.length);
  const lines: ChartLine[] = [
    ...(window === 1
      ? [{ label: 'training', color: COLORS.blue, points: training, mark: 2 }]
      : [
          // The faint line has the label, because only this line reaches the last step.
          { label: 'training', color: COLORS.blue, points: training, width: 1, opacity: 0.35 },
          { label: null, color: COLORS.blue, points: movingMean(training, window), width: 2.2 },
        ]),
    { label: evaluations, color: COLORS.vermilion, points: heldOutPoints(rows, { intervals: true }), width: 1.2, mark: markSize(rows, 3.4) },
  ];
  const smoothing = window === 1 ? '' : `training: each step faint, mean of the ${window} steps around it bold; `;
  return { title: `mean reward (${smoothing}${evaluations}: with 95 % interval)`, lines, range: rewardRange(rows) };
}

function lossChart(rows: readonly MetricsRow[]): Omit<LineChart, 'xLabel'> {
  const { training, validation } = supervisedCurves(rows);
  const lines: ChartLine[] = [
    { label: 'training', color: COLORS.blue, points: training, width: training.length > 120 ? 1.1 : 1.8 },
    ...(validation.length === 0
      ? []
      : [{ label: 'validation', color: COLORS.vermilion, points: validation, width: 1.2, mark: validation.length > 40 ? 1.5 : 3 }]),
  ];
  const begin = rolloutsBegin(rows);
  const rules = begin === null ? [] : [{ step: begin, label: 'rollouts begin' }];
  return { title: 'supervised loss, nats per token', lines, rules, range: { from: 0 } };
}

/** Between the last step on demonstrations alone and the first with rollouts; null for a run without one of the two. */
function rolloutsBegin(rows: readonly MetricsRow[]): number | null {
  const steps = rows.filter(({ kind }) => kind === 'step');
  const first = steps.findIndex((row) => (metricValue(row, 'rollouts') ?? 0) + (metricValue(row, 'rollouts_failed') ?? 0) > 0);
  const before = steps[first - 1];
  if (before === undefined || (metricValue(before, 'demonstrations') ?? 0) === 0) return null;
  return (before.step + steps[first]!.step) / 2;
}

function overviewCharts(rows: readonly MetricsRow[], evaluations: EvaluationLabel): Omit<LineChart, 'xLabel'>[] {
  // Thin lines keep the noise of long runs readable.
  const thickness = rows.length > 120 ? 1.1 : 1.8;
  const line = (metric: string, color: string, label: string | null = null): ChartLine => ({
    label,
    color,
    points: series(rows, 'step', metric),
    width: thickness,
  });
  // A skipped step has no update: the line breaks there.
  const withGaps = (metric: string, color: string, label: string | null = null): ChartLine => ({
    ...line(metric, color, label),
    points: measured(rows, 'step', metric),
    hasGaps: true,
  });
  const { stack, span } = phaseStack(rows);
  const isSupervised = hasDemonstrations(rows);
  // A quantity that a supervised run cannot measure has no chart; in other runs, an empty chart shows that it was not measured.
  const isPlayed = !isSupervised || rows.some((row) => row.kind === 'step' && metricValue(row, 'reward_mean') !== null);
  const held: ChartLine = {
    label: null,
    color: COLORS.vermilion,
    points: heldOutPoints(rows, { intervals: true }),
    width: 1.2,
    mark: markSize(rows, 3),
  };
  const heldOut = { title: `${evaluations} reward, 95 % interval`, lines: [held], range: rewardRange(rows) };
  const gradient = { title: 'gradient norm before clipping', lines: [withGaps('grad_norm', COLORS.ink)], range: { from: 0 } };
  const seconds = { title: `seconds per step${span === 1 ? '' : `, mean of ${span}`}`, lines: [], stack };
  const rate = { title: 'learning rate', lines: [line('learning_rate', COLORS.purple)], range: { from: 0 } };
  const isTaught = rows.some((row) => metricValue(row, 'teacher_kl') !== null);
  const taught = isTaught ? [line('teacher_kl', COLORS.vermilion, 'to the teacher')] : [];
  if (!isPlayed) return [lossChart(rows), hasRewards(rows) ? heldOut : rate, gradient, seconds];
  return [
    ...(isSupervised ? [lossChart(rows), rate] : []),
    { title: 'reward of training batches', lines: [line('reward_mean', COLORS.blue)], range: rewardRange(rows) },
    heldOut,
    { title: 'entropy, nats per token', lines: [line('entropy', COLORS.green)], range: { from: 0 } },
    {
      title: 'KL, nats per token',
      lines: [line('kl', COLORS.purple, 'penalty'), withGaps('approx_kl', COLORS.orange, 'update'), ...taught],
      range: { from: 0 },
    },
    {
      title: '|Δ log-prob| between trainer and server, nats',
      lines: [line('log_prob_difference_mean', COLORS.blue, 'mean'), line('log_prob_difference_max', COLORS.orange, 'max')],
      range: { logarithmic: true },
    },
    gradient,
    { title: 'sampled tokens per rollout', lines: [line('tokens_per_rollout', COLORS.blue)], range: { from: 0 } },
    ...creditMetrics(rows).map((name) => ({ title: name, lines: [withGaps(name, COLORS.green)] })),
    seconds,
  ];
}

const PHASES = [
  { label: 'sample', color: COLORS.blue, metric: 'rollouts_seconds' },
  { label: 'forward', color: COLORS.sky, metric: 'forward_seconds' },
  { label: 'backward', color: COLORS.green, metric: 'backward_seconds' },
  { label: 'update', color: COLORS.orange, metric: 'update_seconds' },
  { label: 'publish', color: COLORS.vermilion, metric: 'publish_seconds' },
] as const;

/** More columns than this could not be distinguished. */
const MOST_COLUMNS = 60;

function phaseStack(rows: readonly MetricsRow[]): { readonly stack: ChartStack; readonly span: number } {
  const timed = rows.filter((row) => row.kind === 'step' && metricValue(row, 'step_seconds') !== null);
  const span = Math.ceil(timed.length / MOST_COLUMNS) || 1;
  const columns = Array.from({ length: Math.ceil(timed.length / span) }, (_, i) => timed.slice(i * span, (i + 1) * span));
  // A step whose rollouts were on file has no time of sampling.
  const mean = (values: readonly (number | null)[]) => {
    const known = values.filter((value) => value !== null);
    return known.reduce((sum, value) => sum + value, 0) / (known.length || 1);
  };
  const parts = PHASES.map(({ label, color, metric }) => ({
    label,
    color,
    values: columns.map((column) => mean(column.map((row) => metricValue(row, metric)))),
  }));
  // A supervised run has no time of sampling, and one that is not served none of publishing.
  const taken = parts.filter(({ values }) => values.some((value) => value > 0));
  return {
    span,
    stack: { parts: taken.length === 0 ? parts : taken, columns: columns.map((column) => ({ first: column[0]!.step, last: column.at(-1)!.step })) },
  };
}

/** A point for each row of the kind, null if it lacks the metric. */
function measured(rows: readonly MetricsRow[], kind: MetricsRow['kind'], metric: string): ChartPoint[] {
  return rows.filter((row) => row.kind === kind).map((row) => ({ step: row.step, value: metricValue(row, metric) }));
}

function series(rows: readonly MetricsRow[], kind: MetricsRow['kind'], metric: string): ChartPoint[] {
  return measured(rows, kind, metric).filter(({ value }) => value !== null);
}

function heldOutPoints(rows: readonly MetricsRow[], { intervals }: { readonly intervals: boolean }): ChartPoint[] {
  return evaluationsOf(rows).map((row) => ({
    step: row.step,
    value: metricValue(row, 'reward_mean'),
    ...(intervals ? { low: metricValue(row, 'reward_low'), high: metricValue(row, 'reward_high') } : {}),
  }));
}

/** Uses smaller marks if there are many. */
function markSize(rows: readonly MetricsRow[], radius: number): number {
  const evaluations = evaluationsOf(rows).length;
  return evaluations > 40 ? radius / 2 : radius;
}

/** 0 to 1 if the rewards are shares and some are large; 0 to the largest if all are small; the data's range if some are negative or above 1. */
function rewardRange(rows: readonly MetricsRow[]): { readonly from?: number; readonly to?: number } {
  const rewards = rows.flatMap((row) => metricValue(row, 'reward_mean') ?? []);
  const [low, high] = [Math.min(...rewards), Math.max(...rewards)];
  if (low < 0) return {};
  return high > 0.5 && high <= 1 ? { from: 0, to: 1 } : { from: 0 };
}

/** Smoothing window: about a twelfth of the run, odd so that it has a middle; 1, no smoothing, for short runs. */
function smoothingWindow(steps: number): number {
  return steps < 12 ? 1 : 2 * Math.min(10, Math.max(1, Math.round(steps / 24))) + 1;
}

/**
 * Centred moving mean. It has no points for the half window at either end: a mean of fewer steps there would be noisier than the rest of the line, and a
 * window that is not centred would show a plateau that was not measured.
 */
function movingMean(points: readonly ChartPoint[], window: number): ChartPoint[] {
  const half = (window - 1) / 2;
  return points.slice(half, points.length - half).map(({ step }, i) => {
    const near = points.slice(i, i + window);
    return { step, value: near.reduce((sum, { value }) => sum + value!, 0) / window };
  });
}
