/** Two or more trainings in the same charts, live. The address holds the runs, the metrics, what is hidden and how seeds are drawn. */
import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import type { RunLine } from '../../../src/viewing/view-wire.ts';
import { CurveControls, meaningOf, shownCurves } from '../curves/curve-controls.tsx';
import { type CurveKind, metricNames } from '../curves/curve-data.ts';
import { useMetricsOf } from '../curves/use-metrics.ts';
import { letterOf } from '../compare/compare-figures.tsx';
import { EmptyState, LoadingState } from '../frame/states.tsx';
import { useKeys } from '../keys/keys.tsx';
import type { Route } from '../route/route.ts';
import { go, patched } from '../route/use-route.ts';
import { Text } from '../text/text.tsx';
import { OverlayCard } from './overlay-card.tsx';
import { hasSeeds, overlaidGroups, type OverlaidGroup, scaleProblems } from './overlay-data.ts';
import { OverlayLegend, OverlaySettings } from './overlay-figures.tsx';
import { MOST_RUNS } from './overlay-look.tsx';

const KINDS: Readonly<Record<'both' | 'held-out' | 'training', readonly CurveKind[]>> = {
  both: ['step', 'evaluation', 'validation'],
  'held-out': ['evaluation', 'validation'],
  training: ['step'],
};
type Shown = keyof typeof KINDS;
const TITLES: Readonly<Record<Shown, string>> = { both: 'Both', 'held-out': 'Held out', training: 'Training' };
/** With more, the first plots of many runs take long. */
const FIRST_METRICS = 7;

export interface OverlayProps {
  readonly lines: readonly RunLine[];
  /** Runs of the address that the list lacks. */
  readonly missing: readonly string[];
  readonly route: Route;
}

export function Overlay({ lines: all, missing, route }: OverlayProps): VNode {
  const lines = all.slice(0, MOST_RUNS);
  const metrics = useMetricsOf(lines.map(({ id }) => id));
  const runs = useMemo(() => lines.map((line, i) => ({ line, metrics: metrics[i]! })), metrics);
  const isJoined = route.params.text('seeds') !== 'single';
  const groups = useMemo(() => overlaidGroups(runs, isJoined), [runs, isJoined]);
  const names = useMemo(() => [...new Set(runs.flatMap((run) => metricNames(run.metrics.lines ?? [])))], [runs]);
  const shown = shownCurves(route, names, FIRST_METRICS);
  const meanings = useMemo(() => Object.assign({}, ...runs.map((run) => run.metrics.meanings)) as Record<string, string>, [runs]);
  const of = shownOf(route);
  const hidden = route.params.all('hide');
  const isHidden = ({ key }: OverlaidGroup) => hidden.includes(key);
  const toggle = ({ key }: OverlaidGroup) =>
    go(patched(route, { hide: hidden.includes(key) ? hidden.filter((one) => one !== key) : [...hidden, key] }), true);
  const join = () => go(patched(route, { seeds: isJoined ? 'single' : undefined, hide: undefined }), true);
  useKeys([{ keys: ['s'], does: 'Mean over seeds, or single runs', run: () => hasSeeds(runs) && join() }]);
  if (runs.every((run) => run.metrics.lines === null && run.metrics.error === null)) return <LoadingState what="metrics" />;
  return (
    <>
      <Notices missing={missing} leftOut={all.length - lines.length} scales={scaleProblems(groups, letterOf)} />
      <OverlayLegend groups={groups} isHidden={isHidden} toggle={toggle} />
      {names.length === 0 ? (
        <EmptyState title="No metrics yet">
          <p>None of these runs has measured anything. The first evaluation or step brings curves; this page shows them by itself.</p>
        </EmptyState>
      ) : (
        <div class="curves-tab">
          <CurveControls route={route} names={names} shown={shown} meanings={meanings}>
            <div class="switch" role="group" aria-label="Which curves">
              {(Object.keys(KINDS) as Shown[]).map((one) => (
                <button
                  key={one}
                  type="button"
                  aria-pressed={of === one}
                  onClick={() => go(patched(route, { of: one === 'both' ? undefined : one }), true)}
                >
                  {TITLES[one]}
                </button>
              ))}
            </div>
            {hasSeeds(runs) && (
              <div class="switch" role="group" aria-label="Runs that differ in their seed alone">
                {[true, false].map((joined) => (
                  <button key={String(joined)} type="button" aria-pressed={isJoined === joined} onClick={() => isJoined !== joined && join()}>
                    {joined ? 'Mean over seeds' : 'Single runs'}
                  </button>
                ))}
              </div>
            )}
          </CurveControls>
          <div class="curves">
            {shown.metrics.map((name, i) => (
              <OverlayCard
                key={name}
                metric={name}
                meaning={meaningOf(name, meanings)}
                groups={groups}
                isHidden={isHidden}
                kinds={KINDS[of]}
                weight={shown.weight}
                isLarge={i === 0}
              />
            ))}
          </div>
        </div>
      )}
      <h2>Settings that differ</h2>
      <OverlaySettings groups={groups} />
    </>
  );
}

function shownOf({ params }: Route): Shown {
  const of = params.text('of');
  return of !== undefined && Object.hasOwn(KINDS, of) ? (of as Shown) : 'both';
}

interface NoticesProps {
  readonly missing: readonly string[];
  readonly leftOut: number;
  /** Why rewards cannot be compared. */
  readonly scales: readonly string[];
}

function Notices({ missing, leftOut, scales }: NoticesProps): VNode {
  return (
    <>
      {scales.length > 0 && (
        <p class="problem">
          <Text text={`Not comparable: ${scales[0]}.${scales.length === 1 ? '' : ` The same holds for ${scales.length - 1} more.`}`} />
        </p>
      )}
      {missing.map((id) => (
        <p key={id} class="problem">
          <Text text={`${id} is not among the runs. It may have been moved, or is not in this file.`} />
        </p>
      ))}
      {leftOut > 0 && (
        <p class="problem">
          The first {MOST_RUNS} of the selected runs are shown, and {leftOut} more are left out.
        </p>
      )}
    </>
  );
}
