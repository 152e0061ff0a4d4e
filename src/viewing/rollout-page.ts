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
  const problems = run.rolloutProblems(reader, await run.isBeingWritten());
  const { rows, histogram } = queryRows(table, query, among);
  return {
    total: table.size,
    matched: rows.length,
    rows: await reader.rolloutLines(table, windowOf(rows, query)),
    metrics: table.metricNames,
    stops: table.stops,
    tasks: table.tasks,
    histogram,
    problem: problems.length === 0 ? null : problems.join(' '),
  };
}
