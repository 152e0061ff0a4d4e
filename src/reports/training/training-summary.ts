/** Summarises a training run's metrics. Values that were not measured are null or left out, never counted as a reward of 0. */
import { join } from 'node:path';
import type { RoleStats } from '../../schemas/role-stats.ts';
import type { RunCost } from '../../schemas/run-cost.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { HeldOutReward, RewardAt, TrainingSummary } from '../../schemas/training-summary.ts';
import type { MetricsRow } from '../../trainer/training-observer.ts';
import { type KeptBest, readBest } from '../../trainer/records/best-version.ts';
import { chosenMetric, metricName } from '../../trainer/records/chosen-metric.ts';
import { evaluationsOf } from '../../trainer/records/usable-version.ts';
import { readSkippedSteps, type SkippedSteps } from '../../trainer/records/event-log.ts';
import { collapseIn } from '../../trainer/records/collapse.ts';
import { type ChangedSetting, readSettingHistory } from '../../trainer/records/setting-history.ts';
import { readMetrics } from '../../trainer/records/metrics-journal.ts';
import { STOP_PREFIX } from '../../trainer/records/metrics.ts';
import { sourceFiles } from '../../trainer/records/source-files.ts';
import type { TrainingPaths, TrainingOutcome } from '../../trainer/training-session.ts';
import { lowerRate, totalSteps } from '../../trainer/config/training-schedule.ts';
import { metricValue, truncatedRollouts } from '../../trainer/training-observer.ts';
import { CREDIT_PREFIX } from '../../trainer/credit.ts';
import { creditMetrics } from './credit-metrics.ts';
import { evaluatedRollouts } from './evaluated-rollouts.ts';
import { type LossAt, supervisedCurves } from './supervised-curves.ts';

export interface TrainingRecord {
  readonly config: Pick<TrainingConfig, 'name' | 'steps' | 'sft' | 'environment' | 'model' | 'optimizer' | 'checkpoint'>;
  /** All rows of the run, each step once. */
  readonly rows: readonly MetricsRow[];
  readonly outcome: TrainingOutcome;
  /** Path of the transcripts. @default null: none */
  readonly transcripts?: string | null;
  /** Paths of the rows that the source gave. @default none */
  readonly sourceFiles?: readonly string[];
  /** The recorded reasons of steps without an update. @default none */
  readonly skipReasons?: readonly SkippedSteps[];
  /** Settings that changed between the steps. @default none */
  readonly changed?: readonly ChangedSetting[];
  /** The adapter in `best/`. @default null: none was kept */
  readonly best?: KeptBest | null;
  /** The embedded engine ran in this process, so CPU time is not the trainer's overhead alone. @default false */
  readonly sharesProcess?: boolean;
}

/** A run that has ended, in its folder. */
export interface EndedRun {
  readonly outcome: TrainingOutcome;
  readonly config: TrainingConfig;
  readonly paths: TrainingPaths;
  /** Path of the transcripts; null if there are none. */
  readonly transcripts: string | null;
  /** Calls of the models by role in this process. @default none */
  readonly roles?: ReadonlyMap<string, RoleStats>;
  /** Their cost, and that of the training service; null if nothing can cost anything. @default null */
  readonly cost?: RunCost | null;
}

/** Reads the rows of a run and summarises them. */
export async function readTrainingSummary({ outcome, config, paths, transcripts, roles = new Map(), cost = null }: EndedRun): Promise<{
  readonly summary: TrainingSummary;
  readonly rows: readonly MetricsRow[];
}> {
  const rows = await readMetrics(paths.metrics);
  const sharesProcess = config.policy.embedded !== null || config.backend.kind === 'embedded';
  const kept = { best: readBest(paths.best), sourceFiles: await sourceFiles(paths.source) };
  const skipReasons = await readSkippedSteps(paths.events, new Set(rows.filter(isSkipped).map(({ step }) => step)));
  const { changed } = (await readSettingHistory(paths.events)).through({ optimizer: config.optimizer, sft: config.sft }, outcome.step);
  const asked = [...roles].filter(([, { calls, failures }]) => calls + failures > 0);
  const summary = {
    ...trainingSummary({ outcome, config, transcripts, rows, ...kept, skipReasons, changed, sharesProcess }),
    ...(asked.length === 0 ? {} : { roles: Object.fromEntries(asked) }),
    ...(cost === null ? {} : { cost: costOf(cost) }),
  };
  return { summary, rows };
}

/** Without the parts that only an evaluation has. */
function costOf({ usd, roles, service, unpriced, uncounted, limit, limitReached }: RunCost): NonNullable<TrainingSummary['cost']> {
  const served = service === undefined ? {} : { service };
  return { usd, roles: { ...roles }, ...served, unpriced: [...unpriced], uncounted: [...uncounted], limit, limitReached };
}

export function trainingSummary(record: TrainingRecord): TrainingSummary {
  const {
    config,
    rows,
    outcome,
    skipReasons = [],
    changed = [],
    transcripts = null,
    sharesProcess = false,
    best = null,
    sourceFiles: files = [],
  } = record;
  const steps = rows.filter(({ kind }) => kind === 'step');
  const evaluations = evaluationsOf(rows);
  const total = (metric: string) => sum(steps, metric);
  const unplayed = total('rollouts_unplayed');
  const truncated = steps.reduce((count, row) => count + truncatedRollouts(row), 0);
  const stops = stopConditions(steps);
  const credit = creditFigures(steps);
  const { tokens, seconds } = workOf(steps, evaluations);
  const collapse = collapseIn(rows);
  const stepSeconds = total('step_seconds');
  const skipped = steps.filter(isSkipped).length;
  const { reason, message, step, version, model, directory, adapter, checkpoint, plots, events, failedRollouts, resumable } = outcome;
  return {
    name: config.name ?? config.environment.id,
    environment: config.environment.id,
    baseModel: config.model.path,
    reason,
    message,
    step,
    steps: totalSteps(config),
    version,
    model,
    reward: trainingReward(steps),
    heldOut: heldOutReward(evaluations),
    supervised: supervised(rows, best?.metric === 'validation_nll' ? best.adapter : null),
    stepsApplied: steps.length - skipped,
    stepsSkipped: skipped,
    groups: groupCounts(total),
    rollouts: {
      finished: total('rollouts'),
      failed: total('rollouts_failed') + failedRollouts,
      ...(unplayed === 0 ? {} : { unplayed }),
      ...(truncated === 0 ? {} : { truncated }),
    },
    ...(collapse === null ? {} : { collapse: { ...collapse, flags: [...lowerRate(config, collapse.step)] } }),
    ...(skipReasons.length === 0 ? {} : { skipReasons: [...skipReasons] }),
    ...(changed.length === 0 ? {} : { changedSettings: changed.map(({ key, values }) => ({ key, values: [...values] })) }),
    ...(stops.length === 0 ? {} : { stopConditions: Object.fromEntries(stops) }),
    ...(credit.length === 0 ? {} : { credit }),
    tokens,
    tokensPerSecond: {
      sampled: sampledRate(steps),
      trained: ratio(tokens.forwarded, seconds.forward + seconds.backward),
    },
    seconds,
    overheadShare: sharesProcess ? null : ratio(total('overhead_cpu_seconds'), stepSeconds),
    logProbDifference: logProbDifference(steps),
    metrics: join(directory, 'metrics.jsonl'),
    directory,
    adapter,
    checkpoint,
    plots,
    transcripts,
    ...(best === null ? {} : { best }),
    ...bestBy(config, evaluations),
    ...(files.length === 0 ? {} : { sourceFiles: [...files] }),
    events,
    resumable,
  };
}

/** Over the steps that were sampled and not read from a file; null without any. */
function sampledRate(steps: readonly MetricsRow[]): number | null {
  const timed = steps.filter((row) => metricValue(row, 'sampled_tokens_per_second') !== null);
  const seconds = (row: MetricsRow) => metricValue(row, 'rollouts_seconds') ?? 0;
  const tokens = timed.reduce((total, row) => total + metricValue(row, 'sampled_tokens_per_second')! * seconds(row), 0);
  return ratio(
    tokens,
    timed.reduce((total, row) => total + seconds(row), 0),
  );
}

function isSkipped(row: MetricsRow): boolean {
  return row.kind === 'step' && metricValue(row, 'optimizer_steps') === 0;
}

function stopConditions(steps: readonly MetricsRow[]): [stop: string, count: number][] {
  const names = new Set(steps.flatMap(({ values }) => Object.keys(values)).filter((name) => name.startsWith(STOP_PREFIX)));
  const counts = [...names].map((name): [string, number] => [name.slice(STOP_PREFIX.length), sum(steps, name)]);
  return counts.toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
}

/** The first and the last value of each metric of the credit that was measured. */
function creditFigures(steps: readonly MetricsRow[]): NonNullable<TrainingSummary['credit']> {
  return creditMetrics(steps).map((name) => {
    const known = valuesOf(steps, name);
    return { name: name.slice(CREDIT_PREFIX.length), first: known[0]!, last: known.at(-1)! };
  });
}

/** What a run's steps and evaluations took. */
export function workOf(steps: readonly MetricsRow[], evaluations: readonly MetricsRow[]): Pick<TrainingSummary, 'tokens' | 'seconds'> {
  const [sampled, trained, forwarded] = ['sampled_tokens', 'trained_tokens', 'forwarded_tokens'].map((name) => sum(steps, name)) as [
    number,
    number,
    number,
  ];
  return { tokens: { sampled, trained, forwarded }, seconds: wallSeconds(steps, evaluations) };
}

function wallSeconds(steps: readonly MetricsRow[], evaluations: readonly MetricsRow[]): TrainingSummary['seconds'] {
  const [rollouts, forward, backward, update, publish] = (['rollouts', 'forward', 'backward', 'update', 'publish'] as const).map((phase) =>
    sum(steps, `${phase}_seconds`),
  ) as [number, number, number, number, number];
  const inPhases = rollouts + forward + backward + update + publish;
  // Evaluations and checkpoints come after a step and are not part of its time.
  const evaluation = sum(evaluations, 'evaluation_seconds');
  const checkpoint = sum(steps, 'checkpoint_seconds');
  const other = Math.max(0, sum(steps, 'step_seconds') - inPhases);
  return { total: inPhases + other + evaluation + checkpoint, rollouts, forward, backward, update, publish, evaluation, checkpoint, other };
}

function trainingReward(steps: readonly MetricsRow[]): TrainingSummary['reward'] {
  const known = valuesOf(steps, 'reward_mean');
  return known.length === 0 ? null : { first: known[0]!, last: known.at(-1)!, best: highest(known) };
}

function valuesOf(rows: readonly MetricsRow[], metric: string): RewardAt[] {
  return rows.flatMap((row) => {
    const value = metricValue(row, metric);
    return value === null ? [] : [{ step: row.step, value }];
  });
}

function heldOutReward(evaluations: readonly MetricsRow[]): TrainingSummary['heldOut'] {
  const known = evaluations.flatMap((row): HeldOutReward[] => {
    const value = metricValue(row, 'reward_mean');
    if (value === null) return [];
    return [{ step: row.step, value, low: metricValue(row, 'reward_low'), high: metricValue(row, 'reward_high'), ...evaluatedRollouts(row) }];
  });
  return known.length === 0 ? null : { start: known[0]!, end: known.at(-1)!, best: highest(known), evaluations: known.length };
}

/** By the metric that `checkpoint.best` names. */
function bestBy({ checkpoint }: Pick<TrainingConfig, 'checkpoint'>, evaluations: readonly MetricsRow[]): Pick<TrainingSummary, 'bestBy'> {
  const { metric, isLowerBetter } = chosenMetric(checkpoint);
  const known = metric === 'reward_mean' ? [] : valuesOf(evaluations, metric);
  if (known.length === 0) return {};
  const best = isLowerBetter ? lowest(known) : highest(known);
  return {
    bestBy: {
      metric: metricName(metric),
      lowerIsBetter: isLowerBetter,
      start: known[0]!,
      end: known.at(-1)!,
      best,
    },
  };
}

function supervised(rows: readonly MetricsRow[], bestAdapter: string | null): TrainingSummary['supervised'] {
  const { training, validation } = supervisedCurves(rows);
  const steps = rows.filter(({ kind }) => kind === 'step');
  const demonstrations = sum(steps, 'demonstrations');
  if (demonstrations === 0 && validation.length === 0) return null;
  const tokens = sum(steps, 'demonstration_tokens');
  return { demonstrations, tokens, loss: lossCurve(training), validationLoss: lossCurve(validation), bestAdapter };
}

function lossCurve(known: readonly LossAt[]): NonNullable<TrainingSummary['supervised']>['loss'] {
  if (known.length === 0) return null;
  return { first: known[0]!, last: known.at(-1)!, best: lowest(known) };
}

/** Weighted by trained tokens, because a step with few tokens carries little information. */
function logProbDifference(steps: readonly MetricsRow[]): TrainingSummary['logProbDifference'] {
  const measured = steps.flatMap((row) => {
    const mean = metricValue(row, 'log_prob_difference_mean');
    const max = metricValue(row, 'log_prob_difference_max');
    return mean === null || max === null ? [] : [{ mean, max, tokens: metricValue(row, 'trained_tokens') ?? 1 }];
  });
  const tokens = measured.reduce((total, row) => total + row.tokens, 0);
  if (tokens === 0) return null;
  const mean = measured.reduce((total, row) => total + row.mean * row.tokens, 0) / tokens;
  // Rollouts of an earlier version are not compared.
  const trained = steps.filter((row) => (metricValue(row, 'trained_tokens') ?? 0) > 0).length;
  return { mean, max: Math.max(...measured.map(({ max }) => max)), ...(measured.length < trained ? { steps: measured.length } : {}) };
}

function highest<T extends RewardAt>(known: readonly T[]): T {
  return known.reduce((best, row) => (row.value > best.value ? row : best));
}

function lowest<T extends RewardAt>(known: readonly T[]): T {
  return known.reduce((best, row) => (row.value < best.value ? row : best));
}

function sum(rows: readonly MetricsRow[], metric: string): number {
  return rows.reduce((total, row) => total + (metricValue(row, metric) ?? 0), 0);
}

function ratio(a: number, b: number): number | null {
  return b > 0 ? a / b : null;
}

/** Groups of which no rollout was trained although their rewards differ are counted, too: the rewards were too large to be compared, or their tokens were left out. */
function groupCounts(total: (name: string) => number): TrainingSummary['groups'] {
  const [all, trained, constant, tooSmall] = ['groups', 'groups_trained', 'groups_constant', 'groups_too_small'].map(total) as [
    number,
    number,
    number,
    number,
  ];
  const untrained = Math.max(0, all - trained - constant);
  return { trained, constant, tooSmall, ...(untrained === 0 ? {} : { untrained }) };
}
