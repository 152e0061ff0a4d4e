/** Renders a comparison for a terminal. Text of a data set or a model is escaped. */
import type { ComparedPair, ComparedSide, Comparison, RowDifference } from '../../schemas/comparison.ts';
import type { Estimate } from '../../schemas/summary.ts';
import { forksText } from '../evaluation/forks-text.ts';
import { displayPath } from '../text/own-command.ts';
import { Report, type ReportView } from '../text/report.ts';
import { countText, intervalText, meanText, plural } from '../text/number-text.ts';
import { clip, escapeControls } from '../text/terminal-text.ts';

export interface ComparisonView extends ReportView {
  /** The greatest number of rows to show for each pair of runs. */
  readonly rows: number;
}

/** Differences that the legend already shows. */
const IN_LEGEND = /^(model|env_id): /;

export function comparisonText(comparison: Comparison, view: ComparisonView): string {
  const report = new Report(view);
  addLegend(report, comparison);
  report.section();
  report.add(...table(comparison, report));
  for (const pair of comparison.pairs) {
    report.section();
    addPair(report, pair, comparison);
    report.add(...rowLines(pair, { columns: report.columns, paint: view.paint, rows: view.rows }));
  }
  return report.text();
}

function addLegend(report: Report, { sides, rows, metric }: Comparison): void {
  const { columns, paint } = report;
  const envIds = [...new Set(sides.map(({ envId }) => envId))].join(', ');
  report.title(envIds, `  ${plural(rows, 'row')} in common${metric === 'reward' ? '' : `, compared by ${escapeControls(metric)}`}`);
  for (const side of sides) {
    const named = side.run === null ? '' : `${paint('bold', escapeControls(side.run))}  `;
    report.add(`${paint('bold', side.name.padEnd(2))} ${named}${escapeControls(side.model)}  ${paint('dim', displayPath(side.directory))}`);
    report.add(...sideNotes(side).map((note) => `   ${clip(escapeControls(note), columns - 3)}`));
  }
}

function sideNotes({ changes, otherRows, forks }: ComparedSide): string[] {
  const shown = changes.filter((change) => !IN_LEGEND.test(change));
  const more = shown.length > 4 ? [`and ${plural(shown.length - 4, 'further setting')}`] : [];
  const left = otherRows === 0 ? [] : [`${plural(otherRows, 'row')} left out: another run lacks them`];
  return [...shown.slice(0, 4), ...more, ...left, ...(forks === undefined ? [] : [`forks: ${forksText(forks)}`])];
}

function table({ sides, metric }: Comparison, { columns, paint }: ReportView): string[] {
  const ks = [...new Set(sides.flatMap(({ passAtK }) => Object.keys(passAtK)))].toSorted((a, b) => Number(a) - Number(b));
  const passHead = ks.map((k) => `pass@${k}`.padStart(9)).join('');
  const head = `   ${'rollouts'.padStart(9)}${'failed'.padStart(8)}${clip(escapeControls(metric), 12).padStart(13)}   ${'95 % interval'.padEnd(17)}${passHead}`;
  const lines = sides.map(({ name, finished, failed, mean, passAtK }) => {
    const passes = ks.map((k) => meanText(passAtK[k]?.value ?? null).padStart(9)).join('');
    const interval = intervalText(mean).padEnd(17);
    return `${paint('bold', name.padEnd(3))}${countText(finished).padStart(9)}${countText(failed).padStart(8)}${meanText(mean?.value ?? null).padStart(13)}   ${interval}${passes}`.trimEnd();
  });
  return [paint('dim', clip(head.trimEnd(), columns)), ...lines];
}

function addPair(report: Report, pair: ComparedPair, { resamples, seed, sides, pairs: all }: Comparison): void {
  const { paint } = report;
  const { first, second, difference, mcnemar, wins, losses, ties } = pair;
  const named = (name: string) => {
    const run = sides.find((side) => side.name === name)?.run ?? null;
    return run === null ? name : `${name} (${escapeControls(run)})`;
  };
  report.add(paint('bold', clip(`${named(second)} against ${named(first)}`, report.columns)));
  if (pair.notComparable !== null) {
    report.line('', `not comparable: ${pair.notComparable}. No test.`, 'yellow');
    return;
  }
  if (difference === null) {
    report.add(paint('red', 'No rollout of one has a finished partner in the other, so nothing can be compared.'));
    return;
  }
  const how = differenceMethod(difference, { rows: pair.rows, resamples, seed });
  const lone = pair.unpaired === 0 ? '' : `; ${plural(pair.unpaired, 'finished rollout')} without a partner left out`;
  report.safeLine('difference', `${paint(colourOf(difference), signedEstimate(difference))}  (${how})`);
  if (mcnemar !== null) report.line('McNemar', mcnemarText(pair, mcnemar, all.length));
  report.line('rows', `${second} better in ${countText(wins)}, ${first} better in ${countText(losses)}, as good in ${countText(ties)}`);
  report.line('pairs', `${countText(pair.pairs)} of the same row and rollout${lone}`);
  report.lines('task', namedTexts(pair.tasks ?? {}));
  addMetrics(report, pair);
}

/** How the interval of a difference over rows came about, or why there is none. */
export function differenceMethod(
  { low }: Estimate,
  { rows, resamples, seed }: { readonly rows: number; readonly resamples: number; readonly seed: number },
): string {
  if (low !== null) return `bootstrap over ${plural(rows, 'row')}, ${countText(resamples)} draws, seed ${seed}`;
  return rows === 1 ? 'one row has no interval' : `no interval: all ${countText(rows)} rows have this difference`;
}

/** The verdict of an interval, by whether it excludes 0. */
function colourOf({ low, high }: Estimate): 'green' | 'red' | 'bold' {
  if (low !== null && low > 0) return 'green';
  return high !== null && high < 0 ? 'red' : 'bold';
}

function mcnemarText(
  { first, second }: ComparedPair,
  { gained, lost, p, pAdjusted, isExact }: NonNullable<ComparedPair['mcnemar']>,
  tests: number,
): string {
  const counts = `only ${second} has 1 in ${countText(gained)}, only ${first} in ${countText(lost)}`;
  const corrected = tests < 2 ? '' : `, ${pText(pAdjusted)} after Holm's correction for ${tests} comparisons`;
  return `${pText(p)}${isExact ? '' : ' (approximate)'}${corrected}; ${counts}`;
}

/** `p = 0.012`; `p < 0.0001` below. */
export function pText(p: number): string {
  if (p < 0.0001) return 'p < 0.0001';
  return `p = ${p >= 0.9995 ? '1' : p.toFixed(p < 0.01 ? 4 : 3)}`;
}

function namedTexts(estimates: Readonly<Record<string, Estimate>>): string[] {
  return Object.entries(estimates).map(([name, estimate]) => `${name} ${signedEstimate(estimate)}`);
}

/** The metrics that differ, then the names of those that are equal everywhere. */
function addMetrics(report: Report, { metrics }: ComparedPair): void {
  const isSame = ({ value, low }: Estimate) => value === 0 && low === null;
  const differing = Object.fromEntries(Object.entries(metrics).filter(([, estimate]) => !isSame(estimate)));
  const same = Object.keys(metrics).filter((name) => !(name in differing));
  report.lines('metric', namedTexts(differing));
  report.line('no change', same.length === 0 ? null : same.join(', '));
}

function rowLines({ first, second, rowDifferences }: ComparedPair, { columns, paint, rows }: ComparisonView): string[] {
  const shown = rowDifferences.slice(0, rows);
  if (shown.length === 0) return [];
  const width = Math.min(20, Math.max(...shown.map(({ exampleId }) => String(exampleId).length)));
  const head = `${'row'.padEnd(width)} ${first.padStart(6)} ${second.padStart(6)}`;
  const more = rowDifferences.length - shown.length;
  return [
    paint('dim', head),
    ...shown.map((row) => clip(rowText(row, width), columns)),
    ...(more === 0
      ? []
      : [paint('dim', `and ${plural(more, 'row')} more that differ${more === 1 ? 's' : ''}: --rows ${rowDifferences.length}, or --json`)]),
  ];
}

function rowText({ exampleId, question, first, second }: RowDifference, width: number): string {
  const id = clip(escapeControls(String(exampleId)), width).padEnd(width);
  return `${id} ${meanText(first).padStart(6)} ${meanText(second).padStart(6)}  ${escapeControls(question.replace(/\s+/g, ' '))}`.trimEnd();
}

/** `+0.060 (-0.010 to +0.130)`. */
export function signedEstimate({ value, low, high }: Estimate): string {
  return low === null || high === null ? signed(value) : `${signed(value)} (${signed(low)} to ${signed(high)})`;
}

export function signed(value: number): string {
  const text = meanText(value);
  return value > 0 && Number(text) !== 0 ? `+${text}` : text.replace(/^-(0\.0+)$/, '$1');
}
