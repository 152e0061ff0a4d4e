/** The rollouts of a run as a table with filters. The address holds the whole query. */
import type { VNode } from 'preact';
import type { RolloutLine, RunDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState, LoadingState, ProblemState } from '../frame/states.tsx';
import type { Route } from '../route/route.ts';
import { patched } from '../route/use-route.ts';
import { useSource } from '../source/source-context.ts';
import { Text } from '../text/text.tsx';
import { FilterBar } from './filter-bar.tsx';
import { columnsOf } from './columns.tsx';
import { RolloutGrid } from './rollout-grid.tsx';
import { readTableQuery, shownMetrics } from './table-query.ts';
import { useRollouts } from './use-rollouts.ts';

const EVERY_MS = 4000;

export function RolloutsTab({ detail, route }: { readonly detail: RunDetail; readonly route: Route }): VNode {
  const source = useSource();
  const fallback = detail.sets.find(({ kind }) => kind !== 'step') ?? detail.sets[0];
  const table = readTableQuery(route.params, detail.run.id, fallback?.id ?? 'results');
  const rows = useRollouts(table.query, source.live && detail.run.state !== 'complete' ? EVERY_MS : 0);
  if (detail.sets.length === 0)
    return (
      <EmptyState title="No rollouts on file">
        <p>They appear here as soon as the first one ends.</p>
      </EmptyState>
    );
  const { sort = 'order', descending = false, set } = table.query;
  const metrics = shownMetrics(table.columns, rows.page?.metrics ?? []);
  const columns = columnsOf(metrics, (rows.page?.tasks.length ?? 0) > 1);
  // The first click sorts the largest first, the second the smallest; the third goes back to the file's order.
  const sortHref = (name: string) => patched(route, { sort: sort !== name ? `-${name}` : descending ? name : undefined });
  const href = (line: RolloutLine, index: number) =>
    patched(route, { set, group: line.group, index: line.index, of: route.params.text('group'), at: index }, 'rollout');
  return (
    <div class="rollouts">
      <FilterBar detail={detail} route={route} table={table} page={rows.page} metrics={metrics} />
      {rows.error !== null && <ProblemState problem={rows.error.message} retry={rows.reload} />}
      {(rows.page?.problem ?? null) !== null && (
        <p class="notice">
          <Text text={rows.page!.problem!} />
        </p>
      )}
      {rows.page === null && rows.error === null && <LoadingState what="rollouts" />}
      <RolloutGrid
        rows={rows}
        columns={columns}
        sort={sort}
        descending={descending}
        sortHref={sortHref}
        href={href}
        place={JSON.stringify(table.query)}
      />
      {rows.page !== null && rows.isCurrent && rows.page.matched === 0 && (
        <EmptyState title={rows.page.total === 0 ? 'No rollouts yet' : 'No rollout matches'}>
          <p>{rows.page.total === 0 ? 'They appear here as soon as the first one ends.' : 'Take a filter away.'}</p>
        </EmptyState>
      )}
    </div>
  );
}
