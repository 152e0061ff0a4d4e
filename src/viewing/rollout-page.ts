import { queryRows, windowOf } from './query-rows.ts';
import type { OpenRun } from './open-run.ts';
import type { RolloutTable } from './rollout-table.ts';
import type { TextSearches } from './text-searches.ts';
import type { RolloutPage, RolloutQuery } from './view-wire.ts';

export interface RolloutPageOptions {
  readonly searches: TextSearches;
  readonly signal?: AbortSignal | undefined;
}

/** A window of the table of rollouts. */
export async function rolloutPage(run: OpenRun, query: RolloutQuery, { searches, signal }: RolloutPageOptions): Promise<RolloutPage> {
  const reader = await run.reader(await run.set(query.set));
  const table = await reader.table();
  const { text = '' } = query;
  const among = text === '' ? null : await searches.find(reader.index, table, text, signal);
  const { rows, histogram } = queryRows(table, query, among);
  return {
    total: table.size,
    matched: rows.length,
    rows: await reader.rolloutLines(table, windowOf(rows, query)),
    metrics: table.metricNames,
    stops: table.stops,
    tasks: table.tasks,
    histogram,
    problem: problemOf(table, reader.index.file.name, run.found.kind === 'evaluation'),
  };
}

/** A training may play a rollout again in the file of a step. */
function problemOf({ broken, firstBroken, repeated, firstRepeated }: RolloutTable, file: string, areUnique: boolean): string | null {
  const problems = [
    ...(broken === 0
      ? []
      : [
          `${broken} ${broken === 1 ? 'line' : 'lines'} of ${file} cannot be read (the first at byte ${firstBroken}) and ${broken === 1 ? 'is' : 'are'} left out.`,
        ]),
    ...(repeated === 0 || !areUnique
      ? []
      : [
          `${repeated} ${repeated === 1 ? 'line' : 'lines'} of ${file} ${repeated === 1 ? 'has' : 'have'} the id of a finished rollout (the first at byte ${firstRepeated}); the last line of each rollout is shown.`,
        ]),
  ];
  return problems.length === 0 ? null : problems.join(' ');
}
