/** The part of a route that holds the table's query: the rollouts, their order and the columns. */
import type { RolloutQuery } from '../../../src/viewing/view-wire.ts';
import type { Params } from '../route/route.ts';

export interface TableQuery {
  /** The query without the window. */
  readonly query: RolloutQuery;
  /** Filters in force, each with the parameters that make it. */
  readonly filters: readonly { readonly title: string; readonly params: readonly string[] }[];
  /** Metrics that the user chose as columns; null: the default. */
  readonly columns: readonly string[] | null;
}

/** @param groupParam A rollout's address has its own group, and the table's under another name. */
export function readTableQuery(params: Params, run: string, fallbackSet: string, groupParam: 'group' | 'of' = 'group'): TableQuery {
  const sort = params.text('sort') ?? 'order';
  const failed = params.text('failed');
  const query: Record<string, string | number | boolean> = { run, set: params.text('set') ?? fallbackSet, sort: sort.replace(/^-/, '') };
  const filters: { title: string; params: string[] }[] = [];
  if (sort.startsWith('-')) query['descending'] = true;
  const add = (name: keyof RolloutQuery, value: string | number | boolean | undefined, title: string, ...names: string[]) => {
    if (value === undefined) return;
    query[name] = value;
    filters.push({ title, params: names });
  };
  const [min, max] = [params.number('min'), params.number('max')];
  add('text', params.text('text'), `text: ${params.text('text')}`, 'text');
  add('stop', params.text('stop'), `ended by ${params.text('stop')}`, 'stop');
  add('task', params.text('task'), `task ${params.text('task')}`, 'task');
  add('group', params.text(groupParam), `row ${params.text(groupParam)}`, groupParam);
  if (failed === 'true' || failed === 'false') add('failed', failed === 'true', failed === 'true' ? 'failed' : 'finished', 'failed');
  if (min !== undefined) query['min_reward'] = min;
  if (max !== undefined) query['max_reward'] = max;
  if (min !== undefined || max !== undefined) filters.push({ title: rangeTitle(min, max), params: ['min', 'max'] });
  const columns = params.text('columns');
  return {
    query: query as unknown as RolloutQuery,
    filters,
    columns: columns === undefined ? null : columns.split(',').filter((name) => name !== '-'),
  };
}

function rangeTitle(min: number | undefined, max: number | undefined): string {
  if (min === undefined) return `reward at most ${max}`;
  return max === undefined ? `reward at least ${min}` : `reward ${min} to ${max}`;
}

/** The metrics that people read first, if the environment has them. */
const FIRST = ['searches', 'em', 'f1', 'judge', 'format_valid'];

export function shownMetrics(columns: readonly string[] | null, metrics: readonly string[]): string[] {
  if (columns !== null) return metrics.filter((name) => columns.includes(name));
  const known = FIRST.filter((name) => metrics.includes(name));
  return metrics.filter((name) => [...known, ...metrics.filter((one) => !known.includes(one))].slice(0, 3).includes(name));
}
