/** The list of runs below a folder. */
import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { RunLine, RunList } from '../../../src/viewing/view-wire.ts';
import { EmptyState, LoadedView } from '../frame/states.tsx';
import { formatCount } from '../figures/numbers.ts';
import { useCursor } from '../keys/use-cursor.ts';
import { useKeys } from '../keys/keys.tsx';
import type { Route } from '../route/route.ts';
import { formatRoute } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';
import { hrefOfRun } from './run-href.ts';
import { RunsTable } from './runs-table.tsx';

/** New runs and results show up within this time. */
const EVERY_MS = 4000;

export function RunsScreen({ route }: { readonly route: Route }): VNode {
  const source = useSource();
  const loaded = useLoaded('runs', () => source.runs(), { everyMs: source.live ? EVERY_MS : 0 });
  return (
    <LoadedView loaded={loaded} what="runs">
      {(list) => <Runs list={list} route={route} />}
    </LoadedView>
  );
}

function Runs({ list, route }: { readonly list: RunList; readonly route: Route }): VNode {
  const filter = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(route.params.text('q') ?? '');
  const shown = sorted(list.runs.filter((run) => matches(run, text)));
  const picked = route.params.all('pick').filter((id) => list.runs.some((run) => run.id === id));
  const [cursor] = useCursor({ count: shown.length, row: 'run', open: (i) => go(hrefOfRun(shown[i]!)) });
  const pick = (id: string) => go(patched(route, { pick: picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id] }), true);
  const compare = () => picked.length > 1 && go(formatRoute('compare', { run: picked }));
  useKeys([
    { keys: ['/'], does: 'Filter the runs', run: () => filter.current?.focus() },
    { keys: ['x'], does: 'Select the run for a comparison', run: () => shown[cursor] !== undefined && pick(shown[cursor].id) },
    { keys: ['c'], does: 'Compare the selected runs', run: compare },
  ]);
  const type = (value: string) => {
    setText(value);
    go(patched(route, { q: value }), true);
  };
  if (list.runs.length === 0) return <NoRuns root={list.root} />;
  return (
    <div class="screen">
      <div class="bar">
        <h1>Runs</h1>
        <span class="quiet-text">
          {formatCount(shown.length)} of {formatCount(list.runs.length)} in <Text text={list.root} />
        </span>
        <input
          ref={filter}
          type="search"
          class="input"
          placeholder="Filter by name, model, state"
          aria-label="Filter the runs"
          value={text}
          onInput={(event) => type(event.currentTarget.value)}
        />
        <button
          type="button"
          class="button"
          disabled={picked.length < 2}
          onClick={compare}
          title="Select two or more runs first: evaluations are compared row by row, trainings laid over each other"
        >
          {picked.length < 2 ? 'Compare' : `Compare ${picked.length} runs`}
        </button>
      </div>
      {list.unread.map((line) => (
        <p class="problem" key={line}>
          <Text text={line} />
        </p>
      ))}
      <RunsTable runs={shown} cursor={cursor} picked={picked} pick={pick} />
      {shown.length === 0 && (
        <EmptyState title="No run matches">
          <p>Type less, or empty the filter.</p>
        </EmptyState>
      )}
    </div>
  );
}

function NoRuns({ root }: { readonly root: string }): VNode {
  return (
    <EmptyState title="No runs yet">
      <p>
        <code>
          <Text text={root} />
        </code>{' '}
        holds no run. Start one, and it appears here:
      </p>
      <pre>vf-eval search-r1 -n 50{'\n'}vf-train search-r1 --preset laptop</pre>
    </EmptyState>
  );
}

/** Every word must occur, in any part. */
function matches(run: RunLine, text: string): boolean {
  const where = [run.id, run.name ?? '', run.differs, run.environment, run.model, run.kind, run.state].join(' ').toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => where.includes(word));
}

/** Running runs first, then the newest. */
function sorted(runs: readonly RunLine[]): RunLine[] {
  const rank = (run: RunLine) => (run.state === 'running' ? 0 : 1);
  const time = (run: RunLine) => Date.parse(run.updated_at ?? run.started_at ?? '') || 0;
  return runs.toSorted((a, b) => rank(a) - rank(b) || time(b) - time(a) || (a.id < b.id ? -1 : 1));
}
