/** Renders the summary of a run as text. All text of models, passages and servers is escaped. */
import type { MetricDisplay } from '../../core/rubric.ts';
import type { Estimate, Summary } from '../../schemas/summary.ts';
import { countText, durationText, intervalText, meanText, plural, tallyText } from '../text/number-text.ts';
import type { NextCommand } from '../text/own-command.ts';
import { Report, type ReportView } from '../text/report.ts';
import { clip, escapeControls } from '../text/terminal-text.ts';
import { costText } from './cost-text.ts';
import { forksText } from './forks-text.ts';
import { refusedText, repeatsText } from './requests-text.ts';
import { renderTranscript } from './render-transcript.ts';
import { roleStatsText } from './role-stats-text.ts';

export interface SummaryView extends ReportView {
  /** `-A`: figures only. */
  readonly abbreviated: boolean;
  /** `-v`: the whole transcript. */
  readonly verbose: boolean;
  /** The metrics that add up to the reward. */
  readonly rewardNames: readonly string[];
  /** The display of the rubric's metrics, in its order. */
  readonly displays: ReadonlyMap<string, MetricDisplay>;
  /** Label and text of the lines under the title: policy, data, sampling. */
  readonly setup: readonly (readonly [label: string, text: string])[];
  readonly next: readonly NextCommand[];
}

export function renderSummary(summary: Summary, view: SummaryView): string {
  const report = new Report(view);
  const { planned, recorded } = summary.rollouts;
  const state = summary.complete ? '' : view.paint('yellow', `  stopped early: ${countText(recorded)} of ${plural(planned, 'rollout')}`);
  report.title(summary.envId, state);
  for (const [label, text] of view.setup) report.line(label, text);
  report.section();
  report.add(...scores(summary, { ...view, columns: report.columns }));
  report.section();
  addRollouts(report, summary);
  report.section();
  if (!view.abbreviated && summary.sample !== null)
    report.add(...renderTranscript(summary.sample, { columns: report.columns, paint: view.paint, full: view.verbose }));
  report.section();
  for (const notice of summary.notices) report.line('note', notice, 'yellow');
  report.section();
  report.paths('results', [summary.directory]);
  report.next(view.next);
  return report.text();
}

function scores(summary: Summary, { columns, paint, rewardNames, displays }: SummaryView): string[] {
  const shown = shownMetrics(summary, { rewardNames, displays });
  const [labelled, others] = [true, false].map((isLabelled) =>
    shown.filter(([name]) => (displays.get(name)?.label !== undefined) === isLabelled),
  ) as [typeof shown, typeof shown];
  const rows: [name: string, estimate: Estimate | null][] = [
    ['reward', summary.reward],
    ...taskRows(summary, displays),
    ...labelled.map(([name, estimate]): [string, Estimate] => [displays.get(name)!.label!, estimate]),
    ['turns per rollout', summary.turns],
    ...others,
    ...Object.entries(summary.passAtK).map(([k, estimate]): [string, Estimate] => [`pass@${k}`, estimate]),
    ...Object.entries(summary.passAllK).map(([k, estimate]): [string, Estimate] => [`pass^${k}`, estimate]),
  ];
  const known = rows.filter((row): row is [string, Estimate] => row[1] !== null);
  if (known.length === 0) return [paint('red', 'No rollout finished, so there is nothing to score.')];
  const nameWidth = Math.min(30, columns - 26, Math.max(...known.map(([name]) => name.length)) + 2);
  const header = `${' '.repeat(nameWidth)}${'mean'.padStart(9)}   95 % interval`;
  const lines = known.map(([name, estimate], i) => {
    const label = clip(escapeControls(name), nameWidth - 1).padEnd(nameWidth);
    const value = meanText(estimate.value).padStart(9);
    return `${label}${i === 0 ? paint('bold', value) : value}   ${paint('dim', intervalText(estimate))}`.trimEnd();
  });
  const { passAtK, passThreshold } = summary;
  const note = Object.keys(passAtK).length === 0 ? [] : [paint('dim', clip(`a pass is a reward of ${passThreshold} or more`, columns))];
  return [paint('dim', header), ...lines, ...note];
}

function shownMetrics(
  { reward, metrics }: Pick<Summary, 'reward' | 'metrics'>,
  { rewardNames, displays }: Pick<SummaryView, 'rewardNames' | 'displays'>,
): [name: string, estimate: Estimate][] {
  const [onlyReward] = rewardNames.length === 1 ? rewardNames : [];
  return Object.entries(metrics).filter(([name, estimate]) => {
    // `turns` has its own line, and a single reward function equals the reward.
    if (name === 'turns' || (name === onlyReward && isSame(estimate, reward))) return false;
    // A metric with a remark gets a line only if it occurred; a note then explains it.
    return displays.get(name)?.remark === undefined || estimate.value !== 0;
  });
}

/** The reward of each task, then its headlines and the metrics whose names another task uses too: a mean over all tasks could mix two meanings. */
function taskRows({ tasks = {} }: Summary, displays: SummaryView['displays']): [name: string, estimate: Estimate | null][] {
  const all = Object.values(tasks);
  const isShared = (name: string) => all.filter(({ metrics }) => name in metrics).length > 1;
  return Object.entries(tasks).flatMap(([task, { reward, metrics }]): [string, Estimate | null][] => {
    const own = all.length === 1 ? [] : shownMetrics({ reward, metrics }, { rewardNames: [], displays });
    const worth = own.filter(([name, estimate]) => !isSame(estimate, reward) && (displays.get(name)?.isHeadline === true || isShared(name)));
    return [[`  ${task}`, reward], ...worth.map(([name, estimate]): [string, Estimate] => [`    ${displays.get(name)?.label ?? name}`, estimate])];
  });
}

function isSame(estimate: Estimate, other: Estimate | null): boolean {
  return other !== null && (['value', 'low', 'high', 'n'] as const).every((key) => estimate[key] === other[key]);
}

function addRollouts(report: Report, summary: Summary): void {
  const { finished, errored } = summary.rollouts;
  const { tokens, truncated, rolloutsPerSecond, prefixBreaks } = summary;
  report.line(
    'rollouts',
    `${countText(finished)} finished, ${countText(errored)} failed${errored === 0 ? '' : ' (no reward; not in the means)'}`,
    errored === 0 ? 'dim' : 'red',
  );
  const cut = truncated === null || truncated.value === 0 ? '' : `; ${percent(truncated.value)} cut short by a length limit`;
  report.line('ended by', `${tallyText(summary.stopConditions)}${cut}`);
  if (summary.forks !== undefined) report.line('forks', clipEnds(forksText(summary.forks), 400), 'yellow');
  if (summary.repeats !== undefined) report.line('repeats', repeatsText(summary.repeats), 'yellow');
  if (summary.refused !== undefined) report.line('refused', clipEnds(refusedText(summary.refused), 400), 'yellow');
  const cached = tokens.cached === null ? '' : `, ${countText(tokens.cached)} from the cache`;
  const perRollout = tokens.outputPerRollout === null ? '' : `, ${countText(tokens.outputPerRollout)} written per rollout`;
  // The tokens of a program's own models are not counted.
  if (summary.policyKind !== 'none')
    report.line('tokens', `${countText(tokens.input)} read, ${countText(tokens.output)} written${cached}${perRollout}`);
  for (const [role, stats] of Object.entries(summary.roles ?? {})) report.line('asked', roleStatsText(role, stats));
  if (summary.cost !== undefined) report.line('cost', costText(summary.cost));
  const { waitedSeconds = 0 } = summary;
  const waited = waitedSeconds < 0.5 ? '' : `, waited ${durationText(waitedSeconds)} for rate limits`;
  report.line(
    'time',
    `${durationText(summary.wallSeconds)}${rolloutsPerSecond === null ? '' : `, ${meanText(rolloutsPerSecond)} rollouts/s`}${waited}`,
  );
  for (const [name, count] of Object.entries(summary.errors)) {
    const example = summary.errorExamples[name];
    const reasons = summary.errorReasons?.[name];
    const kinds = reasons === undefined ? '' : reasonsText(reasons);
    const text = `${countText(count)} × ${name}${kinds}${example === undefined ? '' : `: ${example}`}`;
    report.line('error', clipEnds(text, 400), 'red');
  }
  if (prefixBreaks > 0) report.line('prefix', `${plural(prefixBreaks, 'rollout')} with a prompt that did not extend the previous one`, 'red');
}

/** The number of each reason, if there are several: `exit_code 1` alone would read as a code. The reason `failed` adds nothing to the message. */
function reasonsText(reasons: Readonly<Record<string, number>>): string {
  const names = Object.keys(reasons);
  if (names.every((reason) => reason === 'failed')) return '';
  return ` (${
    names.length === 1
      ? names[0]!
      : Object.entries(reasons)
          .map(([reason, count]) => `${countText(count)} × ${reason}`)
          .join(', ')
  })`;
}

function clipEnds(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 100)} … ${text.slice(-98)}`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.01 ? 1 : 0)} %`;
}
