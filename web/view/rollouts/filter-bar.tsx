/** The bar above the table: the set, the search text, and the active filters as chips. */
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { RolloutPage, RunDetail } from '../../../src/viewing/view-wire.ts';
import { formatCount } from '../figures/numbers.ts';
import { useKeys } from '../keys/keys.tsx';
import type { Route } from '../route/route.ts';
import { go, type Patch, patched } from '../route/use-route.ts';
import { plainText } from '../text/marked-text.ts';
import { Label } from '../text/label.tsx';
import { ColumnMenu } from './column-menu.tsx';
import { RewardRange } from './reward-range.tsx';
import type { TableQuery } from './table-query.ts';

export interface FilterBarProps {
  readonly detail: RunDetail;
  readonly route: Route;
  readonly table: TableQuery;
  readonly page: RolloutPage | null;
  readonly metrics: readonly string[];
}

const CLEAR: Patch = { text: undefined, stop: undefined, task: undefined, group: undefined, failed: undefined, min: undefined, max: undefined };
const OUTCOMES = [
  ['true', 'failed'],
  ['false', 'finished'],
] as const;

export function FilterBar({ detail, route, table, page, metrics }: FilterBarProps): VNode {
  const change = (patch: Patch) => go(patched(route, patch));
  const option = (name: string) => route.params.text(name) ?? '';
  return (
    <div class="filters">
      <div class="filters-row">
        {detail.sets.length > 1 && (
          <Choice
            label="Rollouts of"
            value={table.query.set}
            options={detail.sets.map(({ id, title }) => [id, title])}
            choose={(set) => change({ set, ...CLEAR })}
          />
        )}
        <TextFilter route={route} />
        {(page?.stops.length ?? 0) > 1 && (
          <Choice
            label="Ended by"
            any="any end"
            value={option('stop')}
            options={page!.stops.map((stop) => [stop, stop])}
            choose={(stop) => change({ stop })}
          />
        )}
        {(page?.tasks.length ?? 0) > 1 && (
          <Choice
            label="Task"
            any="any task"
            value={option('task')}
            options={page!.tasks.map((task) => [task, task])}
            choose={(task) => change({ task })}
          />
        )}
        <Choice label="Outcome" any="any outcome" value={option('failed')} options={OUTCOMES} choose={(failed) => change({ failed })} />
        <RewardRange query={table.query} page={page} choose={(min, max) => change({ min, max })} />
        <ColumnMenu
          metrics={page?.metrics ?? []}
          shown={metrics}
          choose={(columns) => go(patched(route, { columns: columns.length === 0 ? '-' : columns.join(',') }), true)}
        />
        <span class="filters-count" role="status">
          {page !== null && (page.matched === page.total ? formatCount(page.total) : `${formatCount(page.matched)} of ${formatCount(page.total)}`)}
        </span>
      </div>
      {table.filters.length > 0 && (
        <ul class="chips" aria-label="Filters in force">
          {table.filters.map(({ title, params }) => (
            <li key={params[0]}>
              <button
                type="button"
                class="chip"
                aria-label={`Take away: ${plainText(title)}`}
                onClick={() => change(Object.fromEntries(params.map((name) => [name, undefined])))}
              >
                <Label text={title} /> <span aria-hidden="true">{'\u00d7'}</span>
              </button>
            </li>
          ))}
          {table.filters.length > 1 && (
            <li>
              <button type="button" class="chip quiet" onClick={() => change(CLEAR)}>
                All away
              </button>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [string, string])[];
  readonly choose: (value: string) => void;
  /** The name of the choice without a filter. */
  readonly any?: string;
}

function Choice({ label, value, options, choose, any }: ChoiceProps): VNode {
  return (
    <select
      class={`input ${any !== undefined && value !== '' ? 'in-force' : ''}`}
      aria-label={label}
      title={label}
      value={value}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      {any !== undefined && <option value="">{any}</option>}
      {options.map(([id, title]) => (
        <option key={id} value={id}>
          {plainText(title.slice(0, 80))}
        </option>
      ))}
    </select>
  );
}

/** The pause after the last key, so that a search over the whole file does not run for each key. */
const WAIT_MS = 250;

function TextFilter({ route }: { readonly route: Route }): VNode {
  const input = useRef<HTMLInputElement>(null);
  const inForce = route.params.text('text') ?? '';
  const [text, setText] = useState(inForce);
  useKeys([{ keys: ['/'], does: 'Look for text', run: () => input.current?.focus() }]);
  useEffect(() => setText(inForce), [inForce]);
  useEffect(() => {
    if (text === inForce) return;
    const timer = setTimeout(() => go(patched(route, { text }), true), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      ref={input}
      type="search"
      class="input"
      placeholder="Text in prompt, response, answer"
      aria-label="Text in prompt, response or answer"
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  );
}
