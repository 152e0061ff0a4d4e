/** Renders rows and events of a training run as log lines. Each is a single line, regardless of the contents of messages. */
import { CREDIT_PREFIX } from '../../trainer/credit.ts';
import { SOURCE_PREFIX, TASK_PREFIX } from '../../trainer/records/metrics.ts';
import { type MetricsRow, metricValue, type TrainingEvent, truncatedRollouts } from '../../trainer/training-observer.ts';
import { countText, durationText, figureText, meanText, plural } from '../../reports/text/number-text.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import type { EvaluationLabel } from '../../reports/training/evaluation-label.ts';
import { stepTime } from '../../reports/training/step-time.ts';
import { nllName } from '../../reports/training/supervised-curves.ts';

/** Of a source or a credit. */
const MOST_OWN_FIGURES = 5;

/** `step 12/30  reward 0.641  entropy 0.21  |Δlogp| 2.1e-6  kl 0.003  4.2 s (sample 2.9, train 0.8, publish 0.1)`. */
export function stepLine(row: MetricsRow, steps: number): string {
  const failed = metricValue(row, 'rollouts_failed') ?? 0;
  return [
    counted(row.step, steps),
    ...(metricValue(row, 'reward_mean') === null && hasDemonstrations(row) ? [] : [`reward ${meanText(metricValue(row, 'reward_mean'))}`]),
    ...lossText(row),
    ...taskRewards(row),
    ...ownFigures(row, SOURCE_PREFIX),
    ...ownFigures(row, CREDIT_PREFIX),
    ...policyFigures(row),
    ...(failed === 0 ? [] : [`${plural(failed, 'rollout')} failed${unplayedText(row)}`]),
    ...cutText(row),
    ...((metricValue(row, 'optimizer_steps') ?? 1) === 0 ? ['no update'] : []),
    ...timeText(row),
  ].join('  ');
}

/** The step has supervised rows. */
function hasDemonstrations(row: MetricsRow): boolean {
  return (metricValue(row, 'demonstrations') ?? 0) > 0;
}

/** The loss on supervised rows. That of a module may have no metric `nll`; then the step's loss is shown, unless rollouts are part of it. */
function lossText(row: MetricsRow): string[] {
  if (!hasDemonstrations(row)) return [];
  const nll = nllName(Object.keys(row.values));
  if (nll !== null) return [`nll ${figureText(metricValue(row, nll))}`];
  return metricValue(row, 'reward_mean') === null ? [`loss ${figureText(metricValue(row, 'loss'))}`] : [];
}

/** `step 10/30  validation nll 0.412 on 32 held-out rows  1.2 s`. */
export function validationLine(row: MetricsRow, steps: number): string {
  const [nll, rows, seconds] = [metricValue(row, 'validation_nll'), metricValue(row, 'demonstrations') ?? 0, metricValue(row, 'validation_seconds')];
  return [
    counted(row.step, steps),
    `validation nll ${nll === null ? 'not finite' : figureText(nll)} on ${plural(rows, 'held-out row')}`,
    ...(seconds === null ? [] : [durationText(seconds)]),
  ].join('  ');
}

/** `step 10/30  held-out reward 0.912 (0.870 to 0.943)  240 rollouts  5.1 s`. */
export function evaluationLine(row: MetricsRow, steps: number, label: EvaluationLabel = 'held-out'): string {
  const failed = metricValue(row, 'rollouts_failed') ?? 0;
  const seconds = metricValue(row, 'evaluation_seconds');
  return [
    counted(row.step, steps),
    `${label} reward ${meanText(metricValue(row, 'reward_mean'))}${intervalText(row)}`,
    ...taskRewards(row),
    plural(metricValue(row, 'rollouts') ?? 0, 'rollout'),
    ...(failed === 0 ? [] : [`${countText(failed)} failed${unplayedText(row)}`]),
    ...cutText(row),
    ...(seconds === null ? [] : [durationText(seconds)]),
  ].join('  ');
}

/** `step 7/30  alarm: ...`. */
export function eventLine({ step, kind, message }: TrainingEvent, steps: number): string {
  const what = kind.replaceAll('_', ' ');
  const text = escapeControls(message);
  // Messages such as "Stopped at step 3: …".
  return `${counted(step, steps)}  ${text.toLowerCase().startsWith(`${what} `) ? text : `${what}: ${text}`}`;
}

/** Entropy, log-prob difference, KL and staleness of a step, where measured. */
export function policyFigures(row: MetricsRow): string[] {
  const figures: [label: string, value: number | null][] = [
    ['entropy', metricValue(row, 'entropy')],
    ['|Δlogp|', metricValue(row, 'log_prob_difference_mean')],
    // The penalty's KL if there is one; else the KL of the step's updates.
    metricValue(row, 'kl') === null ? ['approx kl', metricValue(row, 'approx_kl')] : ['kl', metricValue(row, 'kl')],
    ['teacher kl', metricValue(row, 'teacher_kl')],
  ];
  const staleness = metricValue(row, 'staleness') ?? 0;
  return [
    ...figures.flatMap(([label, value]) => (value === null ? [] : [`${label} ${figureText(value)}`])),
    ...(staleness === 0 ? [] : [`staleness ${countText(staleness)}`]),
  ];
}

/** The first metrics of a source or a credit, by their names without the prefix: `valid 0.62`. It lists its most important ones first. */
export function ownFigures({ values }: MetricsRow, prefix: string): string[] {
  const known = Object.entries(values).flatMap(([name, value]) => (name.startsWith(prefix) && value !== null ? [{ name, value }] : []));
  return known.slice(0, MOST_OWN_FIGURES).map(({ name, value }) => `${escapeControls(name.slice(prefix.length))} ${figureText(value)}`);
}

/** `search 0.641, sums 0.912`, or nothing if rows have no tasks, or if all have the reward of the rollouts, as roles of an agent without a reward of their own. */
function taskRewards({ values }: MetricsRow): string[] {
  const tasks = Object.entries(values).filter(([name]) => name.startsWith(TASK_PREFIX));
  if (tasks.every(([, value]) => value === values['reward_mean'])) return [];
  const texts = tasks.map(([name, value]) => `${escapeControls(name.slice(TASK_PREFIX.length))} ${meanText(value)}`);
  return texts.length === 0 ? [] : [texts.join(', ')];
}

/** `12 cut short`, if any were. */
function cutText(row: MetricsRow): string[] {
  const cut = truncatedRollouts(row);
  return cut === 0 ? [] : [`${countText(cut)} cut short`];
}

/** ` (2 not played)`, or nothing. */
function unplayedText(row: MetricsRow): string {
  const unplayed = metricValue(row, 'rollouts_unplayed') ?? 0;
  return unplayed === 0 ? '' : ` (${countText(unplayed)} not played)`;
}

/** ` (0.870 to 0.943)`, or nothing. */
function intervalText(row: MetricsRow): string {
  const [low, high] = [metricValue(row, 'reward_low'), metricValue(row, 'reward_high')];
  return low === null || high === null ? '' : ` (${meanText(low)} to ${meanText(high)})`;
}

/** Seconds without the unit: one decimal below ten. */
export function secondsText(seconds: number): string {
  return seconds < 9.95 ? seconds.toFixed(1) : countText(seconds);
}

function timeText(row: MetricsRow): string[] {
  const time = stepTime(row);
  if (time === null) return [];
  const parts = (['sample', 'train', 'publish'] as const).map((name) => `${name} ${secondsText(time[name])}`);
  return [`${durationText(time.total)} (${parts.join(', ')})`];
}

/** Pads the step to the width of the last one, so that the columns of a log align. */
function counted(step: number, steps: number): string {
  return `step ${String(step).padStart(String(steps).length)}/${steps}`;
}
