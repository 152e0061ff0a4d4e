/** Renders the summary of a training run as text. */
import { basename, isAbsolute } from 'node:path';
import type { HeldOutReward, RewardAt, TrainingSummary } from '../../schemas/training-summary.ts';
import { costText } from '../evaluation/cost-text.ts';
import { displayPath } from '../evaluation/render-summary.ts';
import { LABEL_WIDTH, labelledLines, labelledPath } from '../text/labelled-lines.ts';
import { countText, durationText, figureText, meanText, plural } from '../text/number-text.ts';
import type { Paint } from '../text/paint.ts';
import { roleStatsText } from '../evaluation/role-stats-text.ts';
import { clip, escapeControls } from '../text/terminal-text.ts';
import type { EvaluationLabel } from './evaluation-label.ts';
import { curveAxis, type CurvePoint, rewardCurve } from './reward-curve.ts';

export interface TrainingSummaryView {
  /** Columns of the terminal. */
  readonly columns: number;
  readonly paint: Paint;
  /** Mean reward of each training batch, drawn as a curve above the figures. @default no curve */
  readonly rewards?: readonly CurvePoint[];
  /** Loss of each supervised step, drawn if the run has no rewards to draw. @default none */
  readonly losses?: readonly CurvePoint[];
  /** @default held-out */
  readonly evaluationLabel?: EvaluationLabel;
  /** Suggested next commands, with their purpose. */
  readonly next: readonly { readonly why: string; readonly command: string }[];
}

const WIDEST = 100;

export function renderTrainingSummary(summary: TrainingSummary, view: TrainingSummaryView): string {
  const columns = Math.max(40, Math.min(view.columns, WIDEST));
  const fitted = { ...view, columns };
  return `${[title, drawnCurve, results, figures, places]
    .map((section) => section(summary, fitted))
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`;
}

function title(summary: TrainingSummary, { columns, paint }: TrainingSummaryView): string[] {
  const { reason, step, steps, message } = summary;
  const done = `${countText(step)} of ${plural(steps, 'step')}`;
  // Without a policy server, a run has an adapter but no version.
  const isServed = summary.version > 0 || summary.stepsApplied === 0;
  const state = reason === 'finished' ? `  finished, ${done}` : paint('yellow', `  ${reason} after ${done}`);
  return [
    `${paint('bold', escapeControls(summary.name))}${state}`,
    paint('dim', '─'.repeat(columns)),
    ...(message === null ? [] : labelledLines('because', escapeControls(message), columns, paint, 'yellow')),
    ...labelledLines(
      'trained',
      escapeControls(`${modelText(summary.baseModel)} on ${summary.environment}${isServed ? `, now version ${summary.version}` : ''}`),
      columns,
      paint,
    ),
  ];
}

/** With fewer rewards, the table below suffices. */
const CURVE = { least: 3, height: 5, leastSpan: 0.1 } as const;

/** The training reward, or without one the supervised loss, from the first to the last planned step, with the values at the top and the bottom of its axis. */
function drawnCurve({ steps }: TrainingSummary, { columns, paint, rewards: rewarded = [], losses = [] }: TrainingSummaryView): string[] {
  const isOfLosses = rewarded.length === 0;
  const points = isOfLosses ? losses : rewarded;
  if (points.length < CURVE.least) return [];
  const { height, leastSpan } = CURVE;
  const drawn = rewardCurve(points, { width: columns - LABEL_WIDTH, height, steps, leastSpan });
  const { low, high } = curveAxis(points, leastSpan);
  const label = (row: number) => (row === 0 ? meanText(high) : row === height - 1 ? meanText(low) : '');
  const last = ['1', countText(steps)] as const;
  return [
    paint('dim', isOfLosses ? 'supervised loss by step' : 'training reward by step'),
    ...drawn.map((line, row) => `${paint('dim', label(row).padStart(LABEL_WIDTH - 2))}  ${paint('green', line.trimEnd())}`.trimEnd()),
    paint('dim', `${' '.repeat(LABEL_WIDTH)}${last[0]}${last[1].padStart(columns - LABEL_WIDTH - 1)}`),
  ];
}

/** Widths of the table: of a row's name, and the range for a value. */
const NAME = 18;
const CELL = { least: 16, most: 20 } as const;

/** First, last and best of rewards and losses. A narrow terminal leaves no room for the best. */
function results(summary: TrainingSummary, { columns, paint, evaluationLabel = 'held-out' }: TrainingSummaryView): string[] {
  const { reward, heldOut, supervised } = summary;
  const [loss, validationLoss] = [supervised?.loss ?? null, supervised?.validationLoss ?? null];
  const isMissing = reward === null && heldOut === null && isPlayed(summary);
  const none = isMissing ? [paint('red', 'No rollout finished, so there is no reward.')] : [];
  if (reward === null && heldOut === null && loss === null && validationLoss === null) return none;
  const cell = Math.min(CELL.most, Math.max(CELL.least, Math.floor((columns - NAME) / 3)));
  const shown = Math.min(3, Math.floor((columns - NAME) / cell));
  const row = (name: string, cells: readonly string[]) => {
    const values = cells.slice(0, shown).map((text) => text.padEnd(cell));
    return clip(`${name.padEnd(NAME)}${values.join('')}`.trimEnd(), columns);
  };
  const at = ({ step, value }: RewardAt) => `${meanText(value)} at ${countText(step)}`;
  const interval = ({ low, high }: HeldOutReward) => (low === null || high === null ? '–' : `${meanText(low)} to ${meanText(high)}`);
  const held = heldOut === null ? [] : [heldOut.start, heldOut.end, heldOut.best];
  const atLoss = ({ step, value }: RewardAt) => `${figureText(value)} at ${countText(step)}`;
  const lossRow = (name: string, curve: typeof loss) => (curve === null ? [] : [row(name, [curve.first, curve.last, curve.best].map(atLoss))]);
  return [
    ...none,
    paint('dim', row('', ['first', 'last', 'best'])),
    ...lossRow('supervised loss', loss),
    ...lossRow('validation loss', validationLoss),
    ...(reward === null ? [] : [row('training reward', [reward.first, reward.last, reward.best].map(at))]),
    ...(heldOut === null ? [] : [row(`${evaluationLabel} reward`, held.map(at)), paint('dim', row('  95 % interval', held.map(interval)))]),
  ];
}

type Line = (label: string, text: string, style?: Parameters<Paint>[0]) => string[];

/** False for a run of supervised steps alone: nothing is missing where nothing was to be played. */
function isPlayed({ supervised, rollouts: { finished, failed } }: TrainingSummary): boolean {
  return supervised === null || finished + failed > 0;
}

function figures(summary: TrainingSummary, { columns, paint }: TrainingSummaryView): string[] {
  const { groups, roles = {}, cost, tokens, tokensPerSecond, stepsApplied, stepsSkipped, logProbDifference, overheadShare, events } = summary;
  const { supervised } = summary;
  const perSecond = (rate: number | null) => (rate === null ? '' : ` (${figureText(rate)}/s)`);
  const overhead = overheadShare === null ? '' : `; the trainer's own CPU time is ${shareText(overheadShare)} of the steps`;
  const difference = logProbDifference === null ? null : `mean ${figureText(logProbDifference.mean)}, max ${figureText(logProbDifference.max)}`;
  const line: Line = (label, text, style) => labelledLines(label, text, columns, paint, style);
  return [
    ...line('steps', `${countText(stepsApplied)} applied, ${countText(stepsSkipped)} skipped`, stepsSkipped === 0 ? 'dim' : 'yellow'),
    ...(stepsApplied === 0 && stepsSkipped > 0 ? line('', isPlayed(summary) ? noUpdateText(groups) : NO_SUPERVISED_UPDATE, 'yellow') : []),
    ...(supervised === null
      ? []
      : line('rows', `${countText(supervised.demonstrations)} supervised, with ${plural(supervised.tokens, 'token')} to learn`)),
    ...(isPlayed(summary) ? rolloutFigures(summary, line) : []),
    ...Object.entries(roles).flatMap(([role, stats]) => line('asked', escapeControls(roleStatsText(role, stats)))),
    ...(cost === undefined ? [] : line('cost', escapeControls(costText(cost)), cost.limitReached ? 'yellow' : undefined)),
    ...line(
      'tokens',
      `${isPlayed(summary) ? `${countText(tokens.sampled)} sampled${perSecond(tokensPerSecond.sampled)}, ` : ''}${countText(tokens.trained)} trained, in sequences with ${countText(tokens.forwarded)} in total${perSecond(tokensPerSecond.trained)}`,
    ),
    ...line('time', `${durationText(summary.seconds.total)}: ${phaseShares(summary.seconds)}${overhead}`),
    ...(difference === null ? [] : line('|Δlogp|', `between trainer and server, ${difference} nats per token`)),
    ...(events === 0 ? [] : line('events', `${countText(events)} in events.jsonl`)),
  ];
}

function rolloutFigures({ groups, rollouts: { finished, failed } }: TrainingSummary, line: Line): string[] {
  return [
    ...line(
      'groups',
      `${countText(groups.trained)} trained, ${countText(groups.constant)} with equal rewards, ${countText(groups.tooSmall)} too small`,
    ),
    ...line(
      'rollouts',
      `${countText(finished)} finished, ${countText(failed)} failed${failed === 0 ? '' : ' (no reward, not trained on)'}`,
      failed === 0 ? 'dim' : 'red',
    ),
  ];
}

const NO_SUPERVISED_UPDATE = 'No weight changed. events.jsonl has the reason of each step.';

/** Why no step of the run had an update, and what to do. */
function noUpdateText({ trained, constant, tooSmall }: TrainingSummary['groups']): string {
  if (trained > 0) return 'No weight changed, although some groups had different rewards. events.jsonl has the reason of each step.';
  const reason = [
    ...(constant > 0 ? ['all rewards within each group were equal'] : []),
    ...(tooSmall > 0 ? [`${plural(tooSmall, 'group')} had fewer than two finished rollouts`] : []),
  ].join(', and ');
  const remedy =
    constant > 0 ? ' Sample more rollouts per example (-r), raise rollouts.temperature, or use easier rows (harder ones if all are solved).' : '';
  return `No weight changed: ${reason === '' ? 'no group was trained' : reason}.${remedy}`;
}

/** For example `sampling 61 %, evaluation 20 %, ...`, the largest first; leaves out what rounds to 0. */
function phaseShares({ total, ...phases }: TrainingSummary['seconds']): string {
  if (total === 0) return 'no step was timed';
  return Object.entries(phases)
    .toSorted(([, a], [, b]) => b - a)
    .filter(([, seconds]) => seconds / total >= 0.005)
    .map(([name, seconds]) => `${name === 'rollouts' ? 'sampling' : name} ${shareText(seconds / total)}`)
    .join(', ');
}

function places(summary: TrainingSummary, { columns, paint, next }: TrainingSummaryView): string[] {
  const { directory, adapter, checkpoint, metrics, plots, transcripts, supervised, sourceFiles = [] } = summary;
  // Validation loss chooses among the supervised steps only: what rollouts taught later is not in it.
  const best = isPlayed(summary) ? 'best sft' : 'best';
  const kept: [label: string, path: string | null][] = [
    ['run', directory],
    ['adapter', adapter],
    [best, supervised?.bestAdapter ?? null],
    ['checkpoint', checkpoint],
    ['metrics', metrics],
    ['transcript', transcripts],
  ];
  return [
    ...kept.flatMap(([label, path]) => (path === null ? [] : labelledPath(label, displayPath(path), paint))),
    ...sourceFiles.map((path, i) => labelledPath(i === 0 ? 'records' : '', displayPath(path), paint)),
    ...plots.map((path, i) => labelledPath(i === 0 ? 'plots' : '', displayPath(path), paint)),
    ...next.flatMap(({ why, command }) => [
      ...labelledLines('next', `${why}:`, columns, paint),
      `${' '.repeat(LABEL_WIDTH)}${paint('cyan', escapeControls(command))}`,
    ]),
  ];
}

/** The last part of an absolute path; a hub id or a relative path unchanged. */
function modelText(model: string): string {
  return isAbsolute(model) ? basename(model) : model;
}

function shareText(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.095 ? 1 : 0)} %`;
}
