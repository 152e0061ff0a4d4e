/** One rollout: its text by author, its reward, and the reasons for it. */
import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import type { RolloutDetail, RolloutPlace } from '../../../src/viewing/view-wire.ts';
import { EmptyState, LoadedView } from '../frame/states.tsx';
import { useKeys } from '../keys/keys.tsx';
import { formatRoute, type Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { readTableQuery } from '../rollouts/table-query.ts';
import { useSource } from '../source/source-context.ts';
import { useLoaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';
import { Branches } from './branches.tsx';
import { Siblings } from './siblings.tsx';
import { TokensView } from './tokens-view.tsx';
import { Transcript } from './transcript.tsx';
import { Details, Verdict } from './verdict.tsx';

export function RolloutScreen({ route }: { readonly route: Route }): VNode {
  const source = useSource();
  const place = placeOf(route);
  const loaded = useLoaded(place === null ? null : `rollout ${JSON.stringify(place)}`, () => source.rollout(place!));
  if (place === null)
    return (
      <EmptyState title="No rollout in this address">
        <p>
          Choose a run in <a href={formatRoute('runs')}>the list of runs</a>, then a rollout in its table.
        </p>
      </EmptyState>
    );
  return (
    <LoadedView loaded={loaded} what="the rollout">
      {(detail) => <Rollout detail={detail} place={place} route={route} isStale={!loaded.isCurrent} />}
    </LoadedView>
  );
}

function placeOf({ params }: Route): RolloutPlace | null {
  const [run, set, group, index] = [params.text('run'), params.text('set'), params.text('group'), params.number('index')];
  return run === undefined || set === undefined || group === undefined || index === undefined ? null : { run, set, group, index };
}

interface RolloutProps {
  readonly detail: RolloutDetail;
  readonly place: RolloutPlace;
  readonly route: Route;
  readonly isStale: boolean;
}

function Rollout({ detail, place, route, isStale }: RolloutProps): VNode {
  const showsTokens = route.params.text('show') === 'tokens' && detail.has_tokens;
  const source = useSource();
  const { branches } = detail;
  const branch = branches[route.params.number('branch') ?? 0] === undefined ? 0 : (route.params.number('branch') ?? 0);
  const show = (what: string | undefined) => go(patched(route, { show: what }), true);
  const sibling = (by: number) => {
    const at = detail.siblings.findIndex(({ index }) => index === detail.line.index);
    const next = detail.siblings[at + by];
    if (next !== undefined) go(patched(route, { index: next.index, at: undefined, branch: undefined }));
  };
  useKeys([
    { keys: ['ArrowRight'], does: 'Next rollout of the same row', run: () => sibling(1) },
    { keys: ['ArrowLeft'], does: 'Previous rollout of the same row', run: () => sibling(-1) },
    { keys: ['j'], does: 'Next rollout of the table', run: () => void step(1) },
    { keys: ['k'], does: 'Previous rollout of the table', run: () => void step(-1) },
    ...(branches.length > 1
      ? [{ keys: ['b'], does: 'Next branch', run: () => go(patched(route, { branch: (branch + 1) % branches.length || undefined }), true) }]
      : []),
    ...(detail.has_tokens ? [{ keys: ['t'], does: 'Switch text and tokens', run: () => show(showsTokens ? undefined : 'tokens') }] : []),
  ]);
  // Keys come faster than answers: each moves on from the target of the last one.
  const wanted = useRef<number | null>(null);
  const step = async (by: number) => {
    const from = wanted.current ?? route.params.number('at');
    if (from === undefined || from + by < 0) return;
    const to = from + by;
    wanted.current = to;
    const { query } = readTableQuery(route.params, place.run, place.set, 'of');
    const page = await source.rollouts({ ...query, from: to, count: 1 }).catch(() => null);
    if (wanted.current !== to) return;
    wanted.current = null;
    const line = page?.rows[0];
    if (line !== undefined) go(patched(route, { group: line.group, index: line.index, at: to, branch: undefined }));
  };
  return (
    <div class={`screen rollout ${isStale ? 'stale' : ''}`}>
      <div class="rollout-head">
        <h1 class="question">
          <Text text={detail.line.question === '' ? detail.line.group : detail.line.question} />
        </h1>
        <Siblings detail={detail} route={route} />
      </div>
      <aside class="rollout-side" aria-label="What it was worth">
        <Verdict detail={detail} />
        <Details detail={detail} />
      </aside>
      <section class="rollout-main" aria-label="Transcript">
        {branches.length > 1 && <Branches branches={branches} selected={branch} route={route} />}
        {detail.has_tokens && (
          <div class="switch" role="group" aria-label="Show">
            <button type="button" aria-pressed={!showsTokens} onClick={() => show(undefined)}>
              Text
            </button>
            <button type="button" aria-pressed={showsTokens} onClick={() => show('tokens')} title="Every token with its log-prob (t)">
              Tokens
            </button>
          </div>
        )}
        {showsTokens ? (
          <TokensView place={branch === 0 ? place : { ...place, branch }} />
        ) : (
          <Transcript key={`${place.set} ${detail.line.rollout_id} ${branch}`} detail={detail} branch={branch} run={place.run} />
        )}
      </section>
    </div>
  );
}
