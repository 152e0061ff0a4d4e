/** Several runs next to each other: trainings as curves; otherwise two to eight sets of rollouts on the same rows, differences first. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Comparison, RunDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState, LoadedView, LoadingState, ProblemState } from '../frame/states.tsx';
import { formatCount, formatDifference, formatReward } from '../figures/numbers.ts';
import { formatRoute, type Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { SideBySide } from '../side/side-by-side.tsx';
import { SplitList } from '../side/split-list.tsx';
import { useSource } from '../source/source-context.ts';
import { type Loaded, useLoaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';
import { Overlay } from '../overlay/overlay-screen.tsx';
import { CompareFigures, letterOf, SetName } from './compare-figures.tsx';

interface ComparedSet {
  readonly run: string;
  readonly set: string;
}

const FIRST_ROWS = 200;
const MORE_ROWS = 500;

export function CompareScreen({ route }: { readonly route: Route }): VNode {
  const { params } = route;
  const named = params.all('set').flatMap(parseSet);
  const runs = named.length === 0 ? params.all('run') : [];
  if (named.length === 0 && runs.length < 2) return <NothingChosen />;
  return named.length > 0 ? <Compared sets={named} route={route} /> : <ComparedRuns runs={runs} route={route} />;
}

/** Trainings alone are laid over each other; `view=rows` compares the rows of their last evaluations, as those of all other runs. */
function ComparedRuns({ runs, route }: { readonly runs: readonly string[]; readonly route: Route }): VNode {
  const source = useSource();
  const list = useLoaded('runs', () => source.runs());
  const wanted = new Set(runs);
  const lines = list.value?.runs.filter(({ id }) => wanted.has(id)) ?? [];
  const areTrainings = lines.length > 0 && lines.every(({ kind }) => kind === 'training');
  const hasCurves = areTrainings && route.params.text('view') !== 'rows';
  const found = useSets(list.value === null || hasCurves ? [] : runs);
  const problem = list.error ?? found.error;
  if (problem !== null) return <ProblemState problem={problem.message} retry={list.error === null ? found.reload : list.reload} />;
  if (!hasCurves && found.value === null) return <LoadingState what="the runs" />;
  const views = areTrainings && <Views route={route} hasCurves={hasCurves} />;
  if (!hasCurves) return <Compared sets={found.value!} route={route} views={views} />;
  const known = new Map(lines.map((line) => [line.id, line]));
  return (
    <div class="screen compare">
      <div class="bar">
        <h1>Trainings</h1>
        {views}
      </div>
      <Overlay lines={[...wanted].flatMap((id) => known.get(id) ?? [])} missing={[...wanted].filter((id) => !known.has(id))} route={route} />
    </div>
  );
}

function Views({ route, hasCurves }: { readonly route: Route; readonly hasCurves: boolean }): VNode {
  return (
    <div class="switch" role="group" aria-label="What to compare">
      <button type="button" aria-pressed={hasCurves} onClick={() => go(patched(route, { view: undefined }))}>
        Curves
      </button>
      <button type="button" aria-pressed={!hasCurves} onClick={() => go(patched(route, { view: 'rows' }))}>
        Held-out questions
      </button>
    </div>
  );
}

function NothingChosen(): VNode {
  return (
    <EmptyState title="Nothing to compare">
      <p>
        Select two or more runs in <a href={formatRoute('runs')}>the list of runs</a>, then press Compare.
      </p>
    </EmptyState>
  );
}

/** The sets by which each run is judged: the results of an evaluation, the last evaluation of a training run. */
function useSets(runs: readonly string[]): Loaded<ComparedSet[]> {
  const source = useSource();
  return useLoaded(runs.length === 0 ? null : `sets of ${JSON.stringify(runs)}`, async () => {
    const details = await Promise.all(runs.map((run) => source.run(run)));
    return details.map((detail) => ({ run: detail.run.id, set: judgedSet(detail) }));
  });
}

function judgedSet({ sets, run }: RunDetail): string {
  const found = sets.findLast(({ kind }) => kind === 'results') ?? sets.findLast(({ kind }) => kind === 'evaluation') ?? sets.at(-1);
  if (found === undefined) throw new Error(`${run.id} has no rollouts on file. Compare runs that have some.`);
  return found.id;
}

/** Ids of sets hold no colon; names of folders may. */
function parseSet(text: string): ComparedSet[] {
  const at = text.lastIndexOf(':');
  return at <= 0 ? [] : [{ run: text.slice(0, at), set: text.slice(at + 1) }];
}

interface ComparedProps {
  readonly sets: readonly ComparedSet[];
  readonly route: Route;
  readonly views?: VNode | false;
}

function Compared({ sets, route, views = false }: ComparedProps): VNode {
  const source = useSource();
  const [count, setCount] = useState(FIRST_ROWS);
  const sort = route.params.text('sort') === 'order' ? 'order' : 'difference';
  const loaded = useLoaded(`compare ${JSON.stringify(sets)} ${sort} ${count}`, () =>
    readRows(count, (from, most) => source.compare({ sets, sort, from, count: most })),
  );
  return (
    <div class="screen compare">
      <div class="bar">
        <h1>Comparison</h1>
        {views}
      </div>
      <LoadedView loaded={loaded} what="the comparison">
        {(comparison) => <Rows comparison={comparison} route={route} sort={sort} more={() => setCount(count + MORE_ROWS)} />}
      </LoadedView>
    </div>
  );
}

/** Joins windows of rows into one answer. */
async function readRows(count: number, read: (from: number, most: number) => Promise<Comparison>): Promise<Comparison> {
  const first = await read(0, Math.min(count, MORE_ROWS));
  const rows = [...first.rows];
  while (rows.length < Math.min(count, first.shared)) {
    const next = await read(rows.length, MORE_ROWS);
    if (next.rows.length === 0) break;
    rows.push(...next.rows);
  }
  return { ...first, rows };
}

interface RowsProps {
  readonly comparison: Comparison;
  readonly route: Route;
  readonly sort: 'difference' | 'order';
  readonly more: () => void;
}

function Rows({ comparison, route, sort, more }: RowsProps): VNode {
  const [text, setText] = useState('');
  const { sets, rows, shared, differing } = comparison;
  const found = rows.filter(({ question, group }) => `${question} ${group}`.toLowerCase().includes(text.toLowerCase()));
  const row = found.find(({ group }) => group === route.params.text('group')) ?? found[0];
  return (
    <>
      <CompareFigures comparison={comparison} route={route} />
      {shared === 0 ? (
        <EmptyState title="No row in common">
          <p>
            {differing > 0 ? 'The ids of these sets stand for different questions' : 'These sets have no row that all of them played'}. Compare runs
            of the same data set.
          </p>
        </EmptyState>
      ) : (
        <SplitList
          label="Rows"
          row="row"
          items={found}
          keyOf={({ group }) => group}
          chosen={row?.group}
          choose={({ group }) => go(patched(route, { group }), true)}
          head={
            <>
              <div class="switch" role="group" aria-label="Order of the rows">
                <button type="button" aria-pressed={sort === 'difference'} onClick={() => go(patched(route, { sort: undefined }), true)}>
                  Differences first
                </button>
                <button type="button" aria-pressed={sort === 'order'} onClick={() => go(patched(route, { sort: 'order' }), true)}>
                  As on file
                </button>
              </div>
              <input
                type="search"
                class="input"
                placeholder="Filter"
                aria-label="Filter the rows"
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            </>
          }
          foot={
            rows.length < shared && (
              <button type="button" class="fold-button" onClick={more}>
                {formatCount(rows.length)} of {formatCount(shared)} rows, load more
              </button>
            )
          }
          draw={({ question, group, rewards }) => (
            <>
              <span class="split-title">
                <Text text={question === '' ? group : question} />
              </span>
              <span class="split-figures">
                {rewards.map((reward, i) => (
                  <span key={i}>
                    <small>{letterOf(i)}</small> {formatReward(reward)}
                  </span>
                ))}
                {rewards.length === 2 && <strong>{formatDifference(difference(rewards))}</strong>}
              </span>
            </>
          )}
        >
          {row !== undefined && (
            <>
              <h2 class="question">
                <Text text={row.question === '' ? row.group : row.question} />
              </h2>
              <SideBySide
                columns={sets.map((set, i) => ({
                  key: `${row.group} ${i}`,
                  title: (
                    <>
                      <span class={`letter l${i}`}>{letterOf(i)}</span> <SetName set={set} />
                    </>
                  ),
                  run: set.run,
                  set: set.set,
                  rollouts: row.rollouts[i] ?? [],
                }))}
              />
            </>
          )}
        </SplitList>
      )}
    </>
  );
}

function difference([first = null, second = null]: readonly (number | null)[]): number | null {
  return first === null || second === null ? null : second - first;
}
