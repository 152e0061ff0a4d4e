import { queryRows, windowOf } from './query-rows.ts';
import type { OpenRun } from './open-run.ts';
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
  const { broken, firstBroken } = table;
  return {
    total: table.size,
    matched: rows.length,
    rows: await reader.rolloutLines(table, windowOf(rows, query)),
    metrics: table.metricNames,
    stops: table.stops,
    tasks: table.tasks,
    histogram,
    problem:
      broken === 0
        ? null
        : `${broken} ${broken === 1 ? 'line' : 'lines'} of ${reader.index.file.name} cannot be read (the first at byte ${firstBroken}) and ${broken === 1 ? 'is' : 'are'} left out.`,
  };
}
