/** The page of runs that differ only by their seed, and of their control: held-out reward by step. */
import { compareRuns } from '../../src/reports/plot/training-plots.ts';
import { type ResultsPage, tableLines } from './results-page.ts';
import { heldOut, runRecord } from './run-figures.ts';
import type { ProvenRun } from './train-once.ts';

export function learningPage(
  runs: readonly ProvenRun[],
  bars: { readonly start: number; readonly end: number },
  { heading, ...page }: Pick<ResultsPage, 'name' | 'title' | 'intro'> & { readonly heading: string },
): Omit<ResultsPage, 'verdicts'> {
  const compared = runs.map(({ label, rows, isControl }) => ({ label, rows, control: isControl }));
  const steps = [...new Set(runs.flatMap(({ rows }) => heldOut(rows).map(({ step }) => step)))].toSorted((a, b) => a - b);
  const table = runs.map(({ label, seconds, rows }) => {
    const at = new Map(heldOut(rows).map(({ step, reward }) => [step, reward.toFixed(3)]));
    return [label, ...steps.map((step) => at.get(step) ?? ''), Math.round(seconds)];
  });
  return {
    ...page,
    plot: { svg: compareRuns(compared, { heading, goals: rewardGoals(bars) }), alt: 'Held-out reward by step' },
    body: tableLines(['run', ...steps.map(String), 'seconds'], table),
    figures: { runs: runs.map((run) => runRecord(run)) },
  };
}

/** The lines of the plot that a run starts below and must reach. */
export function rewardGoals({ start, end }: { readonly start: number; readonly end: number }): { readonly value: number; readonly label: string }[] {
  return [
    { value: end, label: 'goal' },
    { value: start, label: 'start at most' },
  ];
}
