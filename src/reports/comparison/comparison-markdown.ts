/** Renders a comparison as Markdown, for an issue or a pull request. Text of a data set or a model cannot open a tag, a link or a cell. */
import type { ComparedPair, Comparison } from '../../schemas/comparison.ts';
import type { Estimate } from '../../schemas/summary.ts';
import { countText, intervalText, meanText, plural } from '../text/number-text.ts';
import { escapeControls } from '../text/terminal-text.ts';
import { pText, signedEstimate } from './comparison-text.ts';

export function comparisonMarkdown(comparison: Comparison, { rows }: { readonly rows: number }): string {
  const { sides, metric, rows: common, seed, resamples } = comparison;
  const ks = [...new Set(sides.flatMap(({ passAtK }) => Object.keys(passAtK)))].toSorted((a, b) => Number(a) - Number(b));
  const runs = markdownTable(
    ['run', 'environment', 'model', 'folder', 'rollouts', 'failed', plainText(metric), '95 % interval', ...ks.map((k) => `pass@${k}`)],
    sides.map(({ name, run, envId, model, directory, finished, failed, mean, passAtK }) => [
      run === null ? name : `${name}: ${plainText(run)}`,
      plainText(envId),
      plainText(model),
      plainText(directory),
      countText(finished),
      countText(failed),
      meanText(mean?.value ?? null),
      intervalText(mean),
      ...ks.map((k) => meanText(passAtK[k]?.value ?? null)),
    ]),
  );
  const changes = sides.filter((side) => side.changes.length > 0).map((side) => `- ${side.name}: ${side.changes.map(plainText).join('; ')}`);
  const pairs = markdownTable(
    ['', 'pairs', 'difference', '95 % interval', 'McNemar p', 'better', 'worse', 'as good'],
    comparison.pairs.map((pair) => [
      `${pair.second} − ${pair.first}`,
      countText(pair.pairs),
      pair.difference === null ? '–' : signedEstimate({ ...pair.difference, low: null, high: null }),
      intervalText(pair.difference) || '–',
      pair.mcnemar === null ? '–' : pText(pair.mcnemar.pAdjusted).replace('p = ', ''),
      countText(pair.wins),
      countText(pair.losses),
      countText(pair.ties),
    ]),
  );
  const method = `${plural(common, 'row')} in common. Intervals of differences: bootstrap over rows, ${countText(resamples)} draws, seed ${seed}.${
    comparison.pairs.length > 1 ? ' p values are corrected for the number of comparisons (Holm).' : ''
  }`;
  const details = comparison.pairs.flatMap((pair) => pairDetails(pair, rows));
  return `${[runs, changes.join('\n'), pairs, method, ...details].filter((part) => part !== '').join('\n\n')}\n`;
}

function pairDetails({ first, second, notComparable, metrics, tasks = {}, rowDifferences }: ComparedPair, rows: number): string[] {
  if (notComparable !== null) return [`- ${second} − ${first}: not comparable: ${plainText(notComparable)}`];
  const figures = [...Object.entries(tasks), ...Object.entries(metrics)].map(([name, estimate]: [string, Estimate]) => [
    plainText(name),
    signedEstimate(estimate),
  ]);
  const shown = rowDifferences.slice(0, rows);
  return [
    ...(figures.length === 0 ? [] : [markdownTable([`${second} − ${first}`, 'difference'], figures)]),
    ...(shown.length === 0
      ? []
      : [
          markdownTable(
            ['row', first, second, 'question'],
            shown.map((row) => [
              plainText(String(row.exampleId)),
              meanText(row.first),
              meanText(row.second),
              plainText(row.question.replace(/\s+/g, ' ')),
            ]),
          ),
        ]),
  ];
}

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Escapes text so that Markdown shows it unchanged. */
export function plainText(text: string): string {
  return escapeControls(text)
    .replace(/[\\`*_{}[\]#!|~]/g, (char) => `\\${char}`)
    .replace(/[&<>@]/g, (char) => `&#${char.codePointAt(0)!};`)
    .replace(/:\/\//g, '&#58;//')
    .replace(/www\./gi, (found) => `${found.slice(0, 3)}&#46;`);
}
