/** Renders a comparison of trainings as Markdown: the table of an ablation, or a page for an issue. */
import type { SeedEstimate, TrainingComparison } from '../../schemas/training-comparison.ts';
import { countText, intervalText, meanText } from '../text/number-text.ts';
import { markdownTable, plainText } from './comparison-markdown.ts';
import { pText, signedEstimate } from './comparison-text.ts';
import { comparisonSummary, coveredText, groupText, runText } from './training-comparison-text.ts';

export function trainingComparisonMarkdown(comparison: TrainingComparison, title: string): string {
  const { groups, pairs, resamples, seed } = comparison;
  const figures = (value: SeedEstimate | null) => [meanText(value?.value ?? null), intervalText(value)];
  const table = markdownTable(
    ['group', 'settings', 'last', '95 % interval', 'over', 'best', '95 % interval'],
    groups.map(({ name, label, last, best }) => [name, plainText(groupText(label)), ...figures(last), coveredText(last), ...figures(best)]),
  );
  const differences = markdownTable(
    ['', 'over seeds', 'p', 'over rows', 'McNemar p'],
    pairs.map(({ first, second, seeds, rows }) => [
      `${second} − ${first}`,
      seeds === null ? '–' : `${signedEstimate(seeds.difference)}, ${seeds.test === 'paired' ? 'paired' : 'Welch'}`,
      seeds === null ? '–' : pText(seeds.pAdjusted).replace(/^p (= )?/, ''),
      rows === null ? '–' : signedEstimate(rows.difference),
      (rows?.mcnemar ?? null) === null ? '–' : pText(rows!.mcnemar!.pAdjusted).replace(/^p (= )?/, ''),
    ]),
  );
  const runs = markdownTable(
    ['group', 'seed', 'run'],
    groups.flatMap((group) => group.runs.map((run) => [group.name, countText(run.seed), plainText(runText(run))])),
  );
  const method = `Intervals over seeds are Student's; those over rows are bootstraps of ${countText(resamples)} draws, seed ${seed}.${pairs.length > 1 ? ' p values are corrected for the number of comparisons (Holm).' : ''}`;
  const parts = [
    `# ${plainText(title)}`,
    `${plainText(comparisonSummary(comparison))}.`,
    table,
    ...(pairs.length === 0 ? [] : [differences, method]),
    runs,
  ];
  return `${parts.join('\n\n')}\n`;
}
