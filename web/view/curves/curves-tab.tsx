/** The curves of a training run, live. The address holds the chosen metrics and the smoothing. */
import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import type { TrainingDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState, LoadingState, ProblemState } from '../frame/states.tsx';
import type { Route } from '../route/route.ts';
import { Text } from '../text/text.tsx';
import { CurveCard } from './curve-card.tsx';
import { CurveControls, meaningOf, shownCurves } from './curve-controls.tsx';
import { metricNames } from './curve-data.ts';
import { olderText } from './older-text.ts';
import { useMetrics } from './use-metrics.ts';

export function CurvesTab({ detail, route }: { readonly detail: TrainingDetail; readonly route: Route }): VNode {
  const { lines, meanings, older, error } = useMetrics(detail.run.id);
  const names = useMemo(() => metricNames(lines ?? []), [lines]);
  const shown = shownCurves(route, names);
  if (lines === null) return error === null ? <LoadingState what="metrics" /> : <ProblemState problem={error.message} />;
  if (lines.length === 0)
    return (
      <EmptyState title="No metrics yet">
        <p>The first evaluation or step brings them; this page shows them by itself.</p>
      </EmptyState>
    );
  return (
    <div class="curves-tab">
      <CurveControls route={route} names={names} shown={shown} meanings={meanings}>
        {error !== null && (
          <span class="problem" role="alert">
            <Text text={error.message} />
          </span>
        )}
      </CurveControls>
      {older > 0 && (
        <p class="quiet-text">
          <Text text={olderText(older)} />
        </p>
      )}
      <div class="curves">
        {shown.metrics.map((name) => (
          <CurveCard key={name} metric={name} lines={lines} meaning={meaningOf(name, meanings)} weight={shown.weight} />
        ))}
      </div>
    </div>
  );
}
