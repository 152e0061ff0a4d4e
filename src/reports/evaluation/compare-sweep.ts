/** The end of a file with several runs: runs of the same rows, compared with the first of them. */
import { readComparedRun, type ComparedRun } from '../../evaluate/compared-run.ts';
import { compareRuns, haveSameRows } from '../../evaluate/compare-runs.ts';
import { type Comparison, comparisonToWire } from '../../schemas/comparison.ts';
import { pText, signedEstimate } from '../comparison/comparison-text.ts';
import { intervalText, meanText, plural } from '../text/number-text.ts';
import { nearbyPath, ownCommand } from '../text/own-command.ts';
import type { Paint } from '../text/paint.ts';
import { clip, escapeControls } from '../text/terminal-text.ts';

export interface PlayedRun {
  /** Its name in the file, or what distinguishes it in its sweep. */
  readonly name: string;
  readonly directory: string;
}

export interface SweepComparison {
  /** In the order of `comparison.sides`. */
  readonly runs: readonly PlayedRun[];
  readonly comparison: Comparison;
}

/** Reading more runs at once would take long and much memory. */
const MOST_RUNS = 200;

/** One comparison for each set of rows that several runs share. */
export async function compareSweep(runs: readonly PlayedRun[]): Promise<readonly SweepComparison[]> {
  if (runs.length > MOST_RUNS) return [];
  const groups: { readonly run: PlayedRun; readonly read: ComparedRun }[][] = [];
  for (const run of runs) {
    const read = await readComparedRun(run.directory);
    const group = groups.find(([first]) => first!.read.metadata.env_id === read.metadata.env_id && haveSameRows(first!.read, read));
    if (group === undefined) groups.push([{ run, read }]);
    else group.push({ run, read });
  }
  return groups
    .filter((group) => group.length > 1)
    .map((group) => ({ runs: group.map(({ run }) => run), comparison: compareRuns(group.map(({ read }) => read)) }));
}

/** Without the rows that differ, which vf-compare lists. */
export function sweepToWire({ runs, comparison }: SweepComparison): object {
  const { sides, pairs, ...rest } = comparisonToWire(comparison) as { sides: object[]; pairs: Record<string, unknown>[] };
  const named = sides.map((side, i) => ({ ...side, run: runs[i]!.name }));
  return { ...rest, sides: named, pairs: pairs.map(withoutRows) };
}

export function sweepText({ runs, comparison }: SweepComparison, { columns, paint }: { readonly columns: number; readonly paint: Paint }): string {
  const { sides, pairs, rows } = comparison;
  const isTested = pairs.some(({ mcnemar }) => mcnemar !== null);
  const width = Math.max(...sides.map(({ name }) => name.length)) + 2;
  const head = `${''.padEnd(width)}${'reward'.padStart(7)}   ${'95 % interval'.padEnd(17)}${`against ${sides[0]!.name}`.padEnd(28)}${(isTested ? 'p' : '').padEnd(12)}run`;
  const lines = sides.map(({ name, mean }, i) => {
    const pair = pairs[i - 1];
    const difference = pair?.difference === undefined || pair.difference === null ? '' : signedEstimate(pair.difference);
    const p = pair?.mcnemar === undefined || pair.mcnemar === null ? '' : pText(pair.mcnemar.pAdjusted);
    const figures = `${meanText(mean?.value ?? null).padStart(7)}   ${intervalText(mean).padEnd(17)}${difference.padEnd(28)}${p.padEnd(12)}`;
    return clip(`${name.padEnd(width)}${figures}${escapeControls(runs[i]!.name)}`, columns);
  });
  const command = ownCommand('vf-compare', [sides[0]!.directory, sides[1]!.directory].map(nearbyPath));
  const method = `${isTested ? `p: McNemar's test, corrected for ${plural(pairs.length, 'comparison')}; what` : 'What'} differs and where:`;
  return `${[
    paint('bold', clip(`${plural(runs.length, 'run')} of ${escapeControls(sides[0]!.envId)} on the same ${plural(rows, 'row')}`, columns)),
    paint('dim', head.trimEnd()),
    ...lines,
    paint('dim', method),
    paint('cyan', `  ${command}`),
  ].join('\n')}\n`;
}

function withoutRows(pair: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(pair).filter(([key]) => key !== 'row_differences'));
}
