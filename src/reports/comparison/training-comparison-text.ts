/** Renders a comparison of trainings for a terminal. */
import { basename } from 'node:path';
import { folderOfName } from '../../schemas/run-name.ts';
import type { ComparedTrainingRun, SeedEstimate, TrainingComparison, TrainingGroup, TrainingPair } from '../../schemas/training-comparison.ts';
import { countText, durationText, intervalText, meanText, plural, usdText } from '../text/number-text.ts';
import { displayPath } from '../text/own-command.ts';
import { Report, type ReportView } from '../text/report.ts';
import { cellWidth, clip, escapeControls } from '../text/terminal-text.ts';
import { differenceMethod, pText, signed, signedEstimate } from './comparison-text.ts';

export function trainingComparisonText(comparison: TrainingComparison, title: string, view: ReportView): string {
  const { groups, pairs } = comparison;
  const report = new Report(view);
  report.title(title, `  ${escapeControls(comparisonSummary(comparison))}`);
  report.add(...table(comparison, report));
  report.section();
  for (const group of groups) report.line(`${group.name} set`, isCut(group, report) ? groupText(group) : null);
  for (const group of groups) addGain(report, group);
  report.line('total', totalText(comparison));
  report.section();
  for (const group of groups) report.add(...runLines(group, groups.length, report));
  for (const pair of pairs) {
    report.section();
    addPair(report, pair, comparison);
  }
  return report.text();
}

/** `6 runs in 2 groups; held-out reward of search-r1` */
export function comparisonSummary({ groups, metric }: TrainingComparison): string {
  const runs = groups.reduce((sum, group) => sum + group.runs.length, 0);
  const environments = [...new Set(groups.map(({ environment }) => environment))].filter((id) => id !== null);
  const where = environments.length === 0 ? '' : ` of ${environments.join(', ')}`;
  return `${plural(runs, 'run')} in ${plural(groups.length, 'group')}; held-out ${metric}${where}`;
}

/** The name and the settings of a group; a group that is alone differs from none. */
export function groupText({ run, label }: Pick<TrainingGroup, 'run' | 'label'>): string {
  if (run === null) return label === '' ? 'equal but for the seed' : label;
  return label === '' ? run : `${run} (${label})`;
}

/** Says what the interval of a value covers: `3 seeds`, or `rows, 1 seed` for a single run. */
export function coveredText(estimate: SeedEstimate | null): string {
  if (estimate === null) return '';
  return estimate.over === 'seeds' ? plural(estimate.n, 'seed') : 'rows, 1 seed';
}

/** Equal values of several seeds have no interval, because they show no spread. */
export function seedIntervalText(estimate: SeedEstimate | null): string {
  return estimate !== null && estimate.over === 'seeds' && estimate.n > 1 && estimate.low === null ? 'seeds agree' : intervalText(estimate);
}

/** `none` if no version of any seed beat the start. */
export function bestText({ best, beatStart }: TrainingGroup): string {
  return beatStart === 0 ? 'none' : meanText(best?.value ?? null);
}

/** The gain over the start, and how many seeds have a version that beat it; null for runs without an evaluation at the start. */
export function gainText({ gain, beatStart, runs }: TrainingGroup): string | null {
  if (gain === null || beatStart === null) return null;
  const counted = runs.filter(({ counts }) => counts).length;
  const who = beatStart === 0 ? 'no version' : counted === 1 ? 'a version' : `${countText(beatStart)} of ${plural(counted, 'seed')}`;
  return `${signedEstimate(gain)} from the start to the last evaluation; ${who} beat the start`;
}

/** What all runs took, also those that do not count. */
export function totalText({ totals: { tokens, seconds, usd } }: TrainingComparison): string {
  const cost = usd === undefined ? '' : `; models by role ${usdText(usd)}`;
  return `${durationText(seconds)}, ${plural(tokens.sampled, 'token')} sampled, ${countText(tokens.trained)} trained${cost}`;
}

function table({ groups }: TrainingComparison, { columns, paint }: ReportView): string[] {
  const head = `   ${'start'.padStart(7)}${'last'.padStart(9)}   ${'95 % interval'.padEnd(17)}${'over'.padEnd(13)}${'gain'.padStart(8)}${'best'.padStart(8)}   settings`;
  const lines = groups.map((group) => {
    const { name, start, last, gain } = group;
    const [first, end] = [start, last].map((estimate) => meanText(estimate?.value ?? null)) as [string, string];
    const figures = `${first.padStart(7)}${end.padStart(9)}   ${seedIntervalText(last).padEnd(17)}${coveredText(last).padEnd(13)}`;
    const trained = `${(gain === null ? '–' : signed(gain.value)).padStart(8)}${bestText(group).padStart(8)}`;
    return `${paint('bold', name.padEnd(3))}${figures}${trained}   ${clip(escapeControls(groupText(group)), settingsWidth(columns))}`;
  });
  return [paint('dim', clip(head, columns)), ...lines];
}

/** Of the last column. */
function settingsWidth(columns: number): number {
  return Math.max(12, columns - 71);
}

/** Its settings do not fit the table. */
function isCut(group: TrainingGroup, { columns }: ReportView): boolean {
  return cellWidth(escapeControls(groupText(group))) > settingsWidth(columns);
}

function addGain(report: Report, group: TrainingGroup): void {
  report.line(`${group.name} gain`, gainText(group));
}

/** Not clipped, so that a folder can be copied. */
function runLines({ name, runs }: TrainingGroup, groups: number, { paint }: ReportView): string[] {
  return runs.map((run) => {
    const start = `${groups === 1 ? '' : `${name} `}${`seed ${run.seed}`.padEnd(9)}`;
    return `${paint('dim', start)}${escapeControls(runText(run))}`;
  });
}

/** The end of a run, its last evaluation against the start, its best one, and what of it does not count. */
export function runText(run: ComparedTrainingRun): string {
  const { name, state, reason, step, steps, start, last, best, directory, counts } = run;
  // A folder is named after its run, unless the run was renamed.
  const isShown = directory === null || basename(directory).startsWith(`${folderOfName(name)}--`) || basename(directory) === name;
  const where = directory === null ? '' : `  ${isShown ? '' : `${name}  `}${displayPath(directory)}`;
  if (state !== 'finished') {
    const at = steps === 0 ? '' : ` at step ${countText(step)} of ${countText(steps)}`;
    return `${state === 'unfinished' ? 'not finished' : state}${at}, not counted: ${reason ?? 'no reason is recorded'}${where}`;
  }
  if (last === null || best === null)
    return `finished, not counted: ${reason ?? (start === null ? 'it was never evaluated' : 'only its start was evaluated')}${where}`;
  const late = last.step === steps ? '' : `, not of its last step, ${countText(steps)}`;
  const from = start === null ? '' : `, ${meanText(start.value)} at the start`;
  const higher = best.value > last.value ? `; best ${meanText(best.value)} at step ${countText(best.step)}` : '';
  const none = start === null || best.value > start.value ? higher : '; no version beat the start';
  const twice = counts ? '' : '; not counted: an earlier run has its settings and seed';
  return `${meanText(last.value)} at step ${countText(last.step)}${late}${from}${none}${twice}${where}`;
}

function addPair(report: Report, pair: TrainingPair, { pairs, resamples, seed }: TrainingComparison): void {
  const { first, second, seeds, rows, notComparable, note, noSeedsTest, noRowsTest } = pair;
  report.add(report.paint('bold', `${second} against ${first}`));
  if (notComparable !== null) {
    report.line('', `not comparable: ${notComparable}. No test.`, 'yellow');
    return;
  }
  if (noSeedsTest !== null && noSeedsTest === noRowsTest) {
    report.line('', `no test: ${noSeedsTest}`);
    return;
  }
  report.line('note', note, 'yellow');
  report.line('seeds', seeds === null ? `no test: ${noSeedsTest}` : seedsText(seeds, pairs.filter((each) => each.seeds !== null).length));
  if (rows === null) {
    report.line('rows', `no test: ${noRowsTest}`);
    return;
  }
  report.line('rows', `${signedEstimate(rows.difference)}  (${differenceMethod(rows.difference, { rows: rows.rows, resamples, seed })})`);
  report.line('', `${second} better in ${countText(rows.wins)}, ${first} better in ${countText(rows.losses)}, as good in ${countText(rows.ties)}`);
  if (rows.mcnemar !== null)
    report.line(
      'McNemar',
      testText(rows.mcnemar, pairs.filter((each) => (each.rows?.mcnemar ?? null) !== null).length, rows.mcnemar.isExact ? '' : ' (approximate)'),
    );
}

function seedsText(seeds: NonNullable<TrainingPair['seeds']>, tests: number): string {
  const { test, difference } = seeds;
  const how = test === 'paired' ? `t test of ${plural(difference.n, 'pair')} of equal seeds` : `Welch's t test of ${plural(difference.n, 'run')}`;
  return `${signedEstimate(difference)}  ${testText(seeds, tests)}  (${how})`;
}

function testText({ p, pAdjusted }: { readonly p: number; readonly pAdjusted: number }, tests: number, note = ''): string {
  return `${pText(p)}${note}${tests < 2 ? '' : `, ${pText(pAdjusted)} after Holm's correction for ${tests} comparisons`}`;
}
