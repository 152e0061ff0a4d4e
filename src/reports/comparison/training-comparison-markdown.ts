/** Renders a comparison of trainings as Markdown: the table of an ablation, or a page for an issue. */
import type { SeedEstimate, TrainingComparison } from '../../schemas/training-comparison.ts';
import { countText, meanText } from '../text/number-text.ts';
import { markdownTable, plainText } from './comparison-markdown.ts';
import { pText, signedEstimate } from './comparison-text.ts';
import { bestText, comparisonSummary, coveredText, gainText, groupText, runText, seedIntervalText, totalText } from './training-comparison-text.ts';

export function trainingComparisonMarkdown(comparison: TrainingComparison, title: string): string {
  const { groups, pairs, resamples, seed } = comparison;
  const table = markdownTable(
    ['group', 'settings', 'start', 'last', '95 % interval', 'over', 'best', 'gain'],
    groups.map((group) => {
      const { name, start, last } = group;
      const mean = (estimate: SeedEstimate | null) => meanText(estimate?.value ?? null);
      const figures = [mean(start), mean(last), seedIntervalText(last), coveredText(last), bestText(group)];
      return [name, plainText(groupText(group)), ...figures, gainText(group) ?? '–'];
    }),
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
  const untested = pairs.flatMap(({ first, second, notComparable, note, noSeedsTest, noRowsTest }) => {
    const why = [noSeedsTest, noRowsTest].map((text, i) => text && `no test over ${['seeds', 'rows'][i]}: ${text}`);
    const texts = notComparable === null ? [note, ...why] : [`not comparable: ${notComparable}`];
    return texts.filter((text) => text !== null).map((text) => `- ${second} − ${first}: ${plainText(text)}`);
  });
  const runs = markdownTable(
    ['group', 'seed', 'run'],
    groups.flatMap((group) => group.runs.map((run) => [group.name, countText(run.seed), plainText(runText(run))])),
  );
  const method = `Intervals over seeds are Student's; those over rows are bootstraps of ${countText(resamples)} draws, seed ${seed}.${pairs.length > 1 ? ' p values are corrected for the number of comparisons (Holm).' : ''}`;
  const parts = [
    `# ${plainText(title)}`,
    `${plainText(comparisonSummary(comparison))}.`,
    table,
    ...(pairs.length === 0 ? [] : [differences, ...(untested.length === 0 ? [] : [untested.join('\n')]), method]),
    runs,
    `All runs: ${plainText(totalText(comparison))}.`,
  ];
  return `${parts.join('\n\n')}\n`;
}
