/** One metric over the steps, with its values at the cursor. */
import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { Tip } from '../frame/tip.tsx';
import { Text } from '../text/text.tsx';
import { type Curve, curveData, type CurveData, type CurveKind, lastAt } from './curve-data.ts';
import type { MetricLine } from './metric-lines.ts';
import { ColourProbe, useCurvePlot } from './use-curve-plot.tsx';

export interface CurveCardProps {
  readonly metric: string;
  readonly lines: readonly MetricLine[];
  /** Null if the metric has no description. */
  readonly meaning: string | null;
  /** The weight of smoothing; 0: none. */
  readonly weight: number;
}

const NAMES: Readonly<Record<CurveKind, string>> = { step: 'training', evaluation: 'held out', validation: 'validation' };
const HEIGHT = 168;

export function CurveCard({ metric, lines, meaning, weight }: CurveCardProps): VNode {
  const data = useMemo(() => curveData(lines, metric), [lines, metric]);
  const drawn = useMemo(() => {
    const isOnly = data.curves.length === 1;
    return {
      ...data,
      curves: data.curves.map((curve) => ({ ...curve, colour: isOnly ? 'line' : lineOf(curve.kind), isFine: curve.kind === 'step' })),
    };
  }, [data]);
  const { card, frame, index } = useCurvePlot(drawn, { weight, height: HEIGHT });
  return (
    <section ref={card} class="curve">
      <header class="curve-head">
        <h3>{meaning === null ? <Text text={metric} /> : <Tip label={metric} tip={meaning} />}</h3>
        <span class="quiet-text">step {data.steps[index] === undefined ? '\u2013' : formatCount(data.steps[index])}</span>
        <span class="curve-values">
          {data.curves.map((curve) => (
            <Value key={curve.kind} curve={curve} index={index} isOnly={data.curves.length === 1} />
          ))}
        </span>
      </header>
      <div ref={frame} class="curve-frame" role="img" aria-label={describe(metric, data)} />
      <ColourProbe />
    </section>
  );
}

function Value({ curve, index, isOnly }: { readonly curve: Curve; readonly index: number; readonly isOnly: boolean }): VNode {
  const at = lastAt(curve.values, index);
  const bounds = curve.bounds?.[at] ?? null;
  return (
    <span class={`curve-value ${isOnly ? 'line' : lineOf(curve.kind)}`}>
      {!isOnly && <span class="curve-kind">{NAMES[curve.kind]}</span>} {formatNumber(curve.values[at])}
      {bounds !== null && (
        <span class="quiet-text">
          {' '}
          {formatNumber(bounds[0])}
          {'\u2013'}
          {formatNumber(bounds[1])}
        </span>
      )}
    </span>
  );
}

/** Curves of training are fainter if there are held-out figures on the same plot. */
function lineOf(kind: CurveKind): string {
  return kind === 'step' ? 'line-2' : kind === 'evaluation' ? 'line' : 'line-3';
}

function describe(metric: string, { steps, curves }: CurveData): string {
  const parts = curves.map(({ kind, values }) => {
    const known = values.filter((value) => value !== null);
    return `${NAMES[kind]} from ${formatNumber(known[0])} to ${formatNumber(known.at(-1))}`;
  });
  return `${metric} over steps ${steps[0] ?? 0} to ${steps.at(-1) ?? 0}: ${parts.join('; ')}`;
}
