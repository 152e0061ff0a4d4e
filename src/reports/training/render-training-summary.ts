/** Renders the summary of a training run as text. */
import { basename, isAbsolute } from 'node:path';
import type { HeldOutReward, RewardAt, TrainingSummary } from '../../schemas/training-summary.ts';
import { skipRemedy } from '../../trainer/skip-reason.ts';
import { changedText } from '../../trainer/records/setting-history.ts';
import { costText } from '../evaluation/cost-text.ts';
import { roleStatsText } from '../evaluation/role-stats-text.ts';
import type { CurvePoint } from '../text/curve-rows.ts';
import { countText, durationText, figureText, intervalText, meanText, plural, tallyText } from '../text/number-text.ts';
import type { NextCommand } from '../text/own-command.ts';
import { Report, type ReportView } from '../text/report.ts';
import { clip, escapeControls } from '../text/terminal-text.ts';
import type { EvaluationLabel } from './evaluation-label.ts';

export interface TrainingSummaryView extends ReportView {
  /** Mean reward of each training batch, drawn as a curve above the figures. @default no curve */
  readonly rewards?: readonly CurvePoint[];
  /** Loss of each supervised step, drawn if the run has no rewards to draw. @default none */
  readonly losses?: readonly CurvePoint[];
  /** @default held-out */
  readonly evaluationLabel?: EvaluationLabel;
  readonly next: readonly NextCommand[];
}

/** With fewer points, the table below the curve suffices. */
const LEAST_POINTS = 3;

export function renderTrainingSummary(summary: TrainingSummary, view: TrainingSummaryView): string {
  const report = new Report(view);
  addTitle(report, summary);
  report.section();
  const { rewards = [], losses = [], evaluationLabel = 'held-out' } = view;
  if (rewards.length >= LEAST_POINTS) report.curve('training reward by step', rewards, summary.steps);
  else if (rewards.length === 0 && losses.length >= LEAST_POINTS) report.curve('supervised loss by step', losses, summary.steps);
  report.section();
  report.add(...results(summary, { columns: report.columns, paint: report.paint, evaluationLabel }));
  report.section();
  addFigures(report, summary);
  report.section();
  addPlaces(report, summary, evaluationLabel);
  report.next(view.next);
  return report.text();
}

function addTitle(report: Report, { name, reason, step, steps, message, version, stepsApplied, baseModel, environment }: TrainingSummary): void {
  const done = `${countText(step)} of ${plural(steps, 'step')}`;
  report.title(name, reason === 'finished' ? `  finished, ${done}` : report.paint('yellow', `  ${reason} after ${done}`));
  report.line('because', message, 'yellow');
  // Without a policy server, a run has an adapter but no version.
  const isServed = version > 0 || stepsApplied === 0;
  const what = `${modelText(baseModel)} on ${environment}`;
  if (step === 0) report.line('trains', `${what}: no step has been taken`);
  else report.line('trained', `${what}${isServed ? `, now version ${version}` : ''}`);
}

/** Widths of the table: of a row's name, and the range for a value. */
const NAME = 18;
const CELL = { least: 16, most: 20 } as const;

/** First, last and best of rewards and losses. A narrow terminal leaves no room for the best. */
function results(
  summary: TrainingSummary,
  { columns, paint, evaluationLabel }: ReportView & { readonly evaluationLabel: EvaluationLabel },
): string[] {
  const { reward, heldOut, bestBy, supervised } = summary;
  const [loss, validationLoss] = [supervised?.loss ?? null, supervised?.validationLoss ?? null];
  const isMissing = reward === null && heldOut === null && isPlayed(summary);
  const { finished, failed } = summary.rollouts;
  // A step that was taken back is not recorded, although its rollouts finished.
  const why = finished > 0 ? 'The mean of the rewards is not a finite number' : failed > 0 ? 'No rollout finished' : 'No step was recorded';
  const none = isMissing ? [paint('red', `${why}, so there is no reward.`)] : [];
  if (reward === null && heldOut === null && loss === null && validationLoss === null) return none;
  const cell = Math.min(CELL.most, Math.max(CELL.least, Math.floor((columns - NAME) / 3)));
  const shown = Math.min(3, Math.floor((columns - NAME) / cell));
  const row = (name: string, cells: readonly string[]) => {
    const values = cells.slice(0, shown).map((text) => text.padEnd(cell));
    return clip(`${name.padEnd(NAME)}${values.join('')}`.trimEnd(), columns);
  };
  const at = ({ step, value }: RewardAt) => `${meanText(value)} at ${countText(step)}`;
  const interval = (held: HeldOutReward) => intervalText(held) || '–';
  const held = heldOut === null ? [] : [heldOut.start, heldOut.end, heldOut.best];
  const counts = (name: string, key: 'failed' | 'unplayed') =>
    held.some((each) => each[key] !== undefined)
      ? [
          paint(
            'yellow',
            row(
              name,
              held.map((each) => `${each[key] ?? 0} of ${each.rollouts + (each.failed ?? 0)}`),
            ),
          ),
        ]
      : [];
  const atLoss = ({ step, value }: RewardAt) => `${figureText(value)} at ${countText(step)}`;
  const lossRow = (name: string, curve: typeof loss) => (curve === null ? [] : [row(name, [curve.first, curve.last, curve.best].map(atLoss))]);
  return [
    ...none,
    paint('dim', row('', ['first', 'last', 'best'])),
    ...lossRow('supervised loss', loss),
    ...lossRow('validation loss', validationLoss),
    ...(reward === null ? [] : [row('training reward', [reward.first, reward.last, reward.best].map(at))]),
    ...(heldOut === null ? [] : [row(`${evaluationLabel} reward`, held.map(at)), paint('dim', row('  95 % interval', held.map(interval)))]),
    ...counts('  no reward', 'failed'),
    ...counts('  no room to play', 'unplayed'),
    ...(bestBy === undefined ? [] : [row(`${evaluationLabel} ${escapeControls(bestBy.metric)}`, [bestBy.start, bestBy.end, bestBy.best].map(at))]),
  ];
}

/** False for a run of supervised steps alone, which lacks no rollouts because none were to be played. */
function isPlayed({ supervised, rollouts: { finished, failed } }: TrainingSummary): boolean {
  return supervised === null || finished + failed > 0;
}

function addFigures(report: Report, summary: TrainingSummary): void {
  const { tokens, tokensPerSecond, stepsApplied, stepsSkipped, logProbDifference, overheadShare, events, supervised, cost } = summary;
  const perSecond = (rate: number | null) => (rate === null ? '' : ` (${figureText(rate)}/s)`);
  report.line('steps', `${countText(stepsApplied)} applied, ${countText(stepsSkipped)} skipped`, stepsSkipped === 0 ? 'dim' : 'yellow');
  for (const changed of summary.changedSettings ?? []) report.line('changed', escapeControls(changedText(changed)), 'yellow');
  addSkipReasons(report, summary);
  addCollapse(report, summary);
  if (supervised !== null)
    report.line('rows', `${countText(supervised.demonstrations)} supervised, with ${plural(supervised.tokens, 'token')} to learn`);
  if (isPlayed(summary)) addRolloutFigures(report, summary);
  for (const [role, stats] of Object.entries(summary.roles ?? {})) report.line('asked', roleStatsText(role, stats));
  if (cost !== undefined) report.line('cost', costText(cost), cost.limitReached ? 'yellow' : 'dim');
  const sampled = isPlayed(summary) ? `${countText(tokens.sampled)} sampled${perSecond(tokensPerSecond.sampled)}, ` : '';
  const trained = `${countText(tokens.trained)} trained, in sequences with ${countText(tokens.forwarded)} in total${perSecond(tokensPerSecond.trained)}`;
  report.line('tokens', `${sampled}${trained}`);
  const overhead = overheadShare === null ? '' : `; the trainer's own CPU time is ${shareText(overheadShare)} of the steps`;
  report.line('time', `${durationText(summary.seconds.total)}: ${phaseShares(summary.seconds)}${overhead}`);
  if (logProbDifference !== null) {
    const { mean, max, steps } = logProbDifference;
    const where = steps === undefined ? '' : `, measured in ${plural(steps, 'step')} whose rollouts were of the same version`;
    report.line('|Δlogp|', `between trainer and sampler, mean ${figureText(mean)}, max ${figureText(max)} nats per token${where}`);
  }
  if (events > 0) report.line('events', `${countText(events)} in events.jsonl`);
}

function addRolloutFigures(
  report: Report,
  { groups, rollouts: { finished, failed, unplayed = 0, truncated = 0 }, stopConditions, credit = [] }: TrainingSummary,
): void {
  report.line(
    'groups',
    `${countText(groups.trained)} trained, ${countText(groups.constant)} with equal rewards, ${countText(groups.tooSmall)} too small${groups.untrained === undefined ? '' : `, ${countText(groups.untrained)} left out for other reasons`}`,
  );
  report.line(
    'rollouts',
    `${countText(finished)} finished, ${countText(failed)} failed${failed === 0 ? '' : ' (no reward, not trained on)'}${unplayedText(unplayed)}`,
    failed === 0 ? 'dim' : 'red',
  );
  if (stopConditions !== undefined)
    report.line(
      'ended by',
      `${tallyText(stopConditions)}${truncated === 0 ? '' : `; ${countText(truncated)} cut short by a length limit${crowdedText(stopConditions)}`}`,
    );
  for (const { name, first, last } of credit)
    report.line(
      'credit',
      escapeControls(`${name} ${figureText(first.value)} at ${countText(first.step)}, ${figureText(last.value)} at ${countText(last.step)}`),
    );
}

/** Says which limit it is that a stop condition stands for. */
function crowdedText({ prompt_too_long: crowded = 0 }: Readonly<Record<string, number>>): string {
  return crowded === 0 ? '' : ", prompt_too_long by the model's window or the context of the environment";
}

function unplayedText(count: number): string {
  return count === 0 ? '' : `; ${countText(count)} of these were not played: the policy had no room for a first token`;
}

/** The recorded reasons of the steps without an update, and what to do if no step had one. */
function addSkipReasons(report: Report, { skipReasons = [], stepsApplied, stepsSkipped }: TrainingSummary): void {
  if (stepsSkipped === 0) return;
  const isNone = stepsApplied === 0;
  if (skipReasons.length === 0 && isNone) report.line('', 'No weight changed. events.jsonl has the reason of each step.');
  for (const { kind, text, steps } of skipReasons) {
    const remedy = skipRemedy(kind);
    report.line('', `${isNone ? 'No weight changed' : `${countText(steps)} skipped`}: ${text}.${remedy === null ? '' : ` ${remedy}.`}`);
  }
}

function addCollapse(report: Report, { collapse }: TrainingSummary): void {
  if (collapse === undefined) return;
  report.line('collapsed', `${collapse.text[0]!.toUpperCase()}${collapse.text.slice(1)}. Start a new run with ${collapse.flags.join(' ')}.`, 'red');
}

/** For example `sampling 61 %, evaluation 20 %, ...`, the largest first; leaves out shares that round to 0. */
function phaseShares({ total, ...phases }: TrainingSummary['seconds']): string {
  if (total === 0) return 'no step was timed';
  return Object.entries(phases)
    .toSorted(([, a], [, b]) => b - a)
    .filter(([, seconds]) => seconds / total >= 0.005)
    .map(([name, seconds]) => `${name === 'rollouts' ? 'sampling' : name} ${shareText(seconds / total)}`)
    .join(', ');
}

function addPlaces(report: Report, summary: TrainingSummary, evaluationLabel: EvaluationLabel): void {
  const { directory, adapter, checkpoint, metrics, plots, transcripts, best, bestBy, sourceFiles = [] } = summary;
  report.paths('run', [directory]);
  report.paths('adapter', [adapter]);
  // Validation loss chooses only among the supervised steps: the later effect of rollouts is not in it.
  report.paths(best?.metric === 'validation_nll' && isPlayed(summary) ? 'best sft' : 'best', [best?.adapter]);
  if (best !== undefined && bestBy !== undefined && best.metric !== 'validation_nll')
    report.line(
      'best by',
      `${bestBy.lowerIsBetter ? 'lowest' : 'highest'} ${evaluationLabel} ${escapeControls(bestBy.metric)}, ${meanText(best.value)} after step ${best.step}`,
    );
  if (best === null || best === undefined) addNoBest(report, summary, evaluationLabel);
  report.paths('checkpoint', [checkpoint]);
  report.paths('metrics', [metrics]);
  report.paths('transcript', [transcripts]);
  report.paths('records', sourceFiles);
  report.paths('plots', plots);
}

/** The last part of an absolute path; a hub id or a relative path unchanged. */
function modelText(model: string): string {
  return isAbsolute(model) ? basename(model) : model;
}

function shareText(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.095 ? 1 : 0)} %`;
}

/** Says so if evaluations found no version that plays better than the start. */
function addNoBest(report: Report, { heldOut, adapter, bestBy }: TrainingSummary, label: EvaluationLabel): void {
  if (adapter === null || heldOut === null || heldOut.evaluations < 2 || (bestBy ?? heldOut).best.step !== 0) return;
  report.line(
    'best',
    `none: no version had a ${bestBy?.lowerIsBetter === true ? 'lower' : 'higher'} ${label} ${escapeControls(bestBy?.metric ?? 'reward')} than the start`,
  );
}
