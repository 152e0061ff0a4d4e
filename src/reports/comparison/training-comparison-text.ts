/** Renders a comparison of trainings for a terminal. */
import type { ComparedTrainingRun, SeedEstimate, TrainingComparison, TrainingGroup, TrainingPair } from '../../schemas/training-comparison.ts';
import { countText, intervalText, meanText, plural } from '../text/number-text.ts';
import { displayPath } from '../text/own-command.ts';
import { Report, type ReportView } from '../text/report.ts';
import { clip, escapeControls } from '../text/terminal-text.ts';
import { pText, signedEstimate } from './comparison-text.ts';

export function trainingComparisonText(comparison: TrainingComparison, title: string, view: ReportView): string {
  const { groups, pairs } = comparison;
  const report = new Report(view);
  report.title(title, `  ${comparisonSummary(comparison)}`);
  report.add(...table(comparison, report));
  report.section();
  for (const group of groups) report.add(...runLines(group, groups.length, report));
  for (const pair of pairs) {
    report.section();
    addPair(report, pair, comparison);
  }
  return report.text();
}

/** `6 runs, 2 settings; held-out reward` */
export function comparisonSummary({ groups, metric }: TrainingComparison): string {
  const runs = groups.reduce((sum, group) => sum + group.runs.length, 0);
  return `${plural(runs, 'run')} in ${plural(groups.length, 'group')}; held-out ${escapeControls(metric)}`;
}

/** The settings of a group; a group that is alone differs from none. */
export function groupText(label: string): string {
  return label === '' ? 'equal but for the seed' : label;
}

/** Says what the interval of a value covers: `3 seeds`, `480 rollouts`. */
export function coveredText(estimate: SeedEstimate | null): string {
  if (estimate === null) return '';
  return estimate.over === 'seeds' ? plural(estimate.n, 'seed') : 'rows, 1 seed';
}

function table({ groups }: TrainingComparison, { columns, paint }: ReportView): string[] {
  const head = `   ${'last'.padStart(7)}   ${'95 % interval'.padEnd(17)}${'over'.padEnd(14)}${'best'.padStart(7)}   ${'95 % interval'.padEnd(17)}settings`;
  const lines = groups.map(({ name, last, best, label }) => {
    const figures = (value: SeedEstimate | null) => `${meanText(value?.value ?? null).padStart(7)}   ${intervalText(value).padEnd(17)}`;
    return `${paint('bold', name.padEnd(3))}${figures(last)}${coveredText(last).padEnd(14)}${figures(best)}${clip(escapeControls(groupText(label)), Math.max(12, columns - 68))}`;
  });
  return [paint('dim', clip(head, columns)), ...lines];
}

/** Not clipped, so that a folder can be copied. */
function runLines({ name, runs }: TrainingGroup, groups: number, { paint }: ReportView): string[] {
  return runs.map((run) => {
    const start = `${groups === 1 ? '' : `${name} `}${`seed ${run.seed}`.padEnd(9)}`;
    return `${paint('dim', start)}${escapeControls(runText(run))}`;
  });
}

/** The end of a run, its last and its best evaluation, and what of it does not count. */
export function runText(run: ComparedTrainingRun): string {
  const { state, reason, step, steps, last, best, directory, counts } = run;
  const where = directory === null ? '' : `  ${displayPath(directory)}`;
  if (state !== 'finished') {
    const at = steps === 0 ? '' : ` at step ${countText(step)} of ${countText(steps)}`;
    return `${state === 'unfinished' ? 'not finished' : state}${at}, not counted: ${reason ?? 'no reason is recorded'}${where}`;
  }
  if (last === null || best === null) return `finished, never evaluated, not counted${where}`;
  const late = last.step === steps ? '' : `, not of its last step, ${countText(steps)}`;
  const higher = best.value > last.value ? `; best ${meanText(best.value)} at step ${countText(best.step)}` : '';
  const twice = counts ? '' : '; not counted: an earlier run has its settings and seed';
  return `${meanText(last.value)} at step ${countText(last.step)}${late}${higher}${twice}${where}`;
}

function addPair(report: Report, pair: TrainingPair, { groups, pairs, resamples, seed }: TrainingComparison): void {
  const { first, second, seeds, rows } = pair;
  report.add(report.paint('bold', `${second} against ${first}`));
  const empty = groups.find(({ name, last }) => last === null && (name === first || name === second));
  if (empty !== undefined) {
    report.line('', `no test: no run of ${empty.name} counts`);
    return;
  }
  report.line(
    'seeds',
    seeds === null ? 'no test: each group needs two seeds that finished' : seedsText(seeds, pairs.filter((each) => each.seeds !== null).length),
  );
  if (rows === null) {
    report.line('rows', 'no test: their last evaluations did not play the same rows');
    return;
  }
  const how =
    rows.difference.low === null
      ? 'one row has no interval'
      : `bootstrap over ${plural(rows.rows, 'row')}, ${countText(resamples)} draws, seed ${seed}`;
  report.line('rows', `${signedEstimate(rows.difference)}  (${how})`);
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
