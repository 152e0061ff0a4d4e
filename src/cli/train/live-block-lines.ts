/** Renders the live view of a training run as lines, each at most `columns` wide. */
import { type LiveState, secondsLeft, stepsDone } from './live-state.ts';
import { barLine } from '../live-block.ts';
import { ownFigures, policyFigures, secondsText } from './plain-lines.ts';
import { curveRows } from '../../reports/text/curve-rows.ts';
import { countText, durationText, figureText, meanText, plural } from '../../reports/text/number-text.ts';
import { noPaint, type Paint } from '../../reports/text/paint.ts';
import { clip, escapeControls } from '../../reports/text/terminal-text.ts';
import { CREDIT_PREFIX } from '../../trainer/credit.ts';
import { SOURCE_PREFIX, STOP_PREFIX } from '../../trainer/records/metrics.ts';
import { type MetricsRow, metricValue, type TrainingPhase, truncatedRollouts } from '../../trainer/training-observer.ts';
import { stepTime } from '../../reports/training/step-time.ts';

const LABEL = 11;

export interface LiveLook {
  readonly columns: number;
  /** Seconds since the view opened. */
  readonly seconds: number;
  readonly paint?: Paint;
}

export function liveBlockLines(state: LiveState, { columns, seconds, paint = noPaint }: LiveLook): string[] {
  const room = columns - LABEL;
  const row = state.rows.at(-1) ?? null;
  const lines: [label: string, text: string | null][] = [
    ['now', clip(nowText(state), room)],
    ...rewardLines(state, { room, paint }).map((text, i): [string, string] => [i === 0 ? 'reward' : '', text]),
    [state.evaluationLabel, heldOutText(state.evaluations, { room, paint })],
    ['source', row === null ? null : clip(ownFigures(row, SOURCE_PREFIX).join(' · '), room)],
    ['credit', row === null ? null : clip(ownFigures(row, CREDIT_PREFIX).join(' · '), room)],
    ['ended by', row === null ? null : clip(stopsText(row), room)],
    ['last step', row === null ? null : timeBar(row, { room, paint })],
    ['tokens', row === null ? null : clip(tokensText(row), room)],
    ['policy', row === null ? null : clip([...policyFigures(row), ...gradientFigures(row)].join(' · '), room)],
  ];
  return [
    ...heading(state, { columns, seconds, paint }),
    ...lines.flatMap(([label, text]) => (text === null || text === '' ? [] : [paint('dim', label.padEnd(LABEL)) + text])),
    ...warningLine(state, { room, paint }),
  ];
}

function heading(state: LiveState, { columns, seconds, paint }: LiveLook & { readonly paint: Paint }): string[] {
  const done = stepsDone(state);
  const count = `step ${countText(done)}/${countText(state.steps)}`;
  const left = secondsLeft(state, seconds);
  const clock = `${durationText(seconds)} so far${left === null || done >= state.steps ? '' : `, about ${durationText(left)} left`}`;
  const folder = clip(escapeControls(state.directory), Math.max(10, columns - clock.length - 3));
  return [barLine({ name: state.name, done, total: state.steps, count }, { columns, paint }), paint('dim', clip(`${clock} · ${folder}`, columns))];
}

const DOING: Readonly<Record<TrainingPhase, string>> = {
  rollouts: 'sampling rollouts',
  forward: 'forward pass',
  backward: 'backward pass',
  update: 'optimiser step',
  publish: 'publishing the new weights',
  validation: 'validating on held-out demonstrations',
  evaluation: 'evaluating',
  checkpoint: 'writing a checkpoint',
};

function nowText({ phase, rollouts, evaluationLabel }: LiveState): string {
  if (phase === null) return 'starting';
  const doing = phase.name === 'evaluation' && evaluationLabel === 'held-out' ? 'evaluating on held-out rows' : DOING[phase.name];
  if (rollouts === null) return doing;
  const progress = `${countText(rollouts.done)}/${countText(rollouts.total)}${rollouts.failed === 0 ? '' : `, ${countText(rollouts.failed)} failed`}`;
  // With staleness 1 the next batch is sampled during training on this one.
  return phase.name === 'rollouts' || phase.name === 'evaluation' ? `${doing}  ${progress}` : `${doing}, next rollouts  ${progress}`;
}

/** Rewards that span less are drawn flat, because stretching noise to the full height would mislead. */
const LEAST_REWARD_SPAN = 0.1;
const CURVE = { height: 3, least: 5, most: 60 } as const;

function rewardLines({ rows, steps }: LiveState, { room, paint }: { readonly room: number; readonly paint: Paint }): string[] {
  const known = rows.flatMap((row) => {
    const value = metricValue(row, 'reward_mean');
    return value === null ? [] : [{ step: row.step, value }];
  });
  if (known.length === 0) return [];
  const best = known.reduce((top, row) => (row.value > top.value ? row : top));
  const text = `${meanText(known[0]!.value)} → ${meanText(known.at(-1)!.value)}, best ${meanText(best.value)} at ${best.step}`;
  const width = Math.min(room - text.length - 2, CURVE.most);
  if (width < CURVE.least) return [clip(text, room)];
  const curve = curveRows(known, { width, height: CURVE.height, steps, leastSpan: LEAST_REWARD_SPAN });
  // On the top line, level with the newest rewards of a run that learns.
  return curve.map((line, i) => (i === 0 ? `${paint('green', line)}  ${text}` : paint('green', line.trimEnd())));
}

/** The first evaluation and as many of the newest as fit: `0.229 at 0 → 0.912 at 10`. */
function heldOutText(evaluations: readonly MetricsRow[], { room, paint }: { readonly room: number; readonly paint: Paint }): string {
  if (evaluations.length === 0) return '';
  const texts = evaluations.map((row) => `${meanText(metricValue(row, 'reward_mean'))} at ${row.step}`);
  const [first, ...later] = texts as [string, ...string[]];
  const shown: string[] = [];
  const joined = (some: readonly string[]) => [first, ...(some.length < later.length ? ['…'] : []), ...some].join(' → ');
  for (const text of later.toReversed()) {
    if (joined([text, ...shown]).length > room) break;
    shown.unshift(text);
  }
  const text = clip(joined(shown), room);
  // Highlights the newest figure.
  const newest = shown.at(-1) ?? first;
  return text.endsWith(newest) ? text.slice(0, -newest.length) + paint('bold', newest) : text;
}

const PARTS = [
  { name: 'sample', fill: '█', style: 'cyan' },
  { name: 'train', fill: '▓', style: 'green' },
  { name: 'publish', fill: '▒', style: 'yellow' },
  { name: 'other', fill: '░', style: 'dim' },
] as const;

/** For example `4.2 s  ████▓▓▒  █ sample 2.9  ▓ train 0.8  ▒ publish 0.1`: readable without colour too. */
function timeBar(row: MetricsRow, { room, paint }: { readonly room: number; readonly paint: Paint }): string {
  const time = stepTime(row);
  if (time === null) return '';
  // Leaves out parts too small to show.
  const parts = PARTS.filter(({ name }) => time[name] >= 0.05 || name === 'sample' || name === 'train');
  const key = (part: (typeof PARTS)[number]) => `${part.fill} ${part.name} ${secondsText(time[part.name])}`;
  const total = durationText(time.total);
  const plain = parts.map(key).join('  ');
  const width = Math.min(40, room - total.length - plain.length - 4);
  if (width < parts.length * 2) return clip(`${total}  ${plain}`, room);
  const columns = barColumns(
    parts.map(({ name }) => time[name]),
    width,
  );
  const bar = parts.map(({ fill, style }, i) => paint(style, fill.repeat(columns[i]!))).join('');
  return `${total}  ${bar}  ${parts.map((part) => paint(part.style, part.fill) + key(part).slice(1)).join('  ')}`;
}

/** The stop conditions of the step's rollouts, most frequent first. */
function stopsText(row: MetricsRow): string {
  const { values } = row;
  const cut = truncatedRollouts(row);
  const stops = Object.entries(values).flatMap(([name, count]) =>
    name.startsWith(STOP_PREFIX) && count !== null ? [{ stop: escapeControls(name.slice(STOP_PREFIX.length)), count }] : [],
  );
  return [
    ...stops.toSorted((a, b) => b.count - a.count).map(({ stop, count }) => `${stop} ${countText(count)}`),
    ...(cut === 0 || stops.length === 0 ? [] : [`${countText(cut)} cut short by a length limit`]),
  ].join(' · ');
}

function tokensText(row: MetricsRow): string {
  const figures: [value: number | null, text: string][] = [
    [metricValue(row, 'sampled_tokens_per_second'), 'sampled/s'],
    [metricValue(row, 'trained_tokens_per_second'), 'trained/s'],
    [metricValue(row, 'tokens_per_rollout'), 'per rollout'],
  ];
  return figures.flatMap(([value, text]) => (value === null ? [] : [`${figureText(value)} ${text}`])).join(' · ');
}

function gradientFigures(row: MetricsRow): string[] {
  const norm = metricValue(row, 'grad_norm');
  const constant = metricValue(row, 'groups_constant') ?? 0;
  return [...(norm === null ? [] : [`grad norm ${figureText(norm)}`]), ...(constant === 0 ? [] : [plural(constant, 'constant group')])];
}

function warningLine({ warnings }: LiveState, { room, paint }: { readonly room: number; readonly paint: Paint }): string[] {
  const { count, last } = warnings;
  if (last === null) return [];
  const text = `${countText(count)}, last at step ${last.step}: ${escapeControls(last.message)}`;
  return [paint('yellow', 'warnings'.padEnd(LABEL)) + clip(text, room)];
}

/**
 * Columns of each part of a bar that is `width` columns wide: proportional, and at least one for each nonzero part. Sums to `width` if there is a part
 * and room for all.
 */
export function barColumns(parts: readonly number[], width: number): number[] {
  const total = parts.reduce((sum, part) => sum + part, 0);
  if (!(total > 0)) return parts.map(() => 0);
  const exact = parts.map((part) => (part / total) * width);
  const columns = exact.map((share, i) => (parts[i]! > 0 ? Math.max(1, Math.floor(share)) : 0));
  for (let rest = width - columns.reduce((sum, n) => sum + n, 0); rest !== 0; rest -= Math.sign(rest)) {
    // A missing column goes to the part that lacks most; a surplus one comes from the widest.
    const score = rest > 0 ? exact.map((share, i) => (parts[i]! > 0 ? share - columns[i]! : -Infinity)) : columns;
    const i = score.indexOf(Math.max(...score));
    if (rest < 0 && columns[i]! <= 1) break;
    columns[i]! += Math.sign(rest);
  }
  return columns;
}
