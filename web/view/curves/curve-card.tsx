/** One metric over the steps, with its values at the cursor. */
import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { Tip } from '../frame/tip.tsx';
import { Text } from '../text/text.tsx';
import { type Curve, curveData, type CurveData, type CurveKind } from './curve-data.ts';
import { CurvePlot } from './curve-plot.ts';
import type { MetricLine } from './use-metrics.ts';

export interface CurveCardProps {
  readonly metric: string;
  readonly lines: readonly MetricLine[];
  /** Null if the metric has no description. */
  readonly meaning: string | null;
  /** The weight of smoothing; 0: none. */
  readonly weight: number;
}

const NAMES: Readonly<Record<CurveKind, string>> = { step: 'training', evaluation: 'held out', validation: 'validation' };

export function CurveCard({ metric, lines, meaning, weight }: CurveCardProps): VNode {
  const data = useMemo(() => curveData(lines, metric), [lines, metric]);
  const [at, setAt] = useState<number | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  const card = useRef<HTMLElement>(null);
  const plot = useRef<CurvePlot | null>(null);
  const shape = data.curves.map(({ kind }) => kind).join(' ');

  useEffect(() => {
    if (frame.current === null) return;
    const made = new CurvePlot(frame.current, data, { weight, colours: coloursOf(card.current), moved: setAt });
    plot.current = made;
    const resized = new ResizeObserver(() => made.resize());
    resized.observe(frame.current);
    const recolour = () => requestAnimationFrame(() => made.recolour(coloursOf(card.current)));
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    addEventListener('themechange', recolour);
    scheme.addEventListener('change', recolour);
    return () => {
      resized.disconnect();
      removeEventListener('themechange', recolour);
      scheme.removeEventListener('change', recolour);
      made.destroy();
      plot.current = null;
    };
  }, [shape, weight]);
  useEffect(() => plot.current?.update(data), [data]);

  const index = at === null ? data.steps.length - 1 : at;
  return (
    <section ref={card} class="curve">
      <header class="curve-head">
        <h3>{meaning === null ? <Text text={metric} /> : <Tip label={metric} tip={meaning} />}</h3>
        <span class="quiet-text">step {data.steps[index] === undefined ? '\u2013' : formatCount(data.steps[index])}</span>
        <span class="curve-values">
          {data.curves.map((curve) => (
            <Value key={curve.kind} curve={curve} index={index} isOnly={data.curves.length === 1} data={data} />
          ))}
        </span>
      </header>
      <div ref={frame} class="curve-frame" role="img" aria-label={describe(metric, data)} />
      <span class="curve-probe" aria-hidden="true">
        {['line', 'line-2', 'line-3', 'axis', 'rule'].map((name) => (
          <span key={name} class={`colour-${name}`} />
        ))}
      </span>
    </section>
  );
}

function Value({
  curve,
  index,
  isOnly,
}: {
  readonly curve: Curve;
  readonly index: number;
  readonly isOnly: boolean;
  readonly data: CurveData;
}): VNode {
  const at = lastAt(curve, index);
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

/** The last index up to this one at which the curve has a value. */
function lastAt({ values }: Curve, index: number): number {
  for (let i = index; i >= 0; i--) if (values[i] !== null) return i;
  return index;
}

function describe(metric: string, { steps, curves }: CurveData): string {
  const parts = curves.map(({ kind, values }) => {
    const known = values.filter((value) => value !== null);
    return `${NAMES[kind]} from ${formatNumber(known[0])} to ${formatNumber(known.at(-1))}`;
  });
  return `${metric} over steps ${steps[0] ?? 0} to ${steps.at(-1) ?? 0}: ${parts.join('; ')}`;
}

/** A canvas knows no variables of the style; the colours are read from elements that have them. */
function coloursOf(card: HTMLElement | null): Record<'line' | 'line-2' | 'line-3' | 'axis' | 'rule', string> {
  const read = (name: string) => {
    const probe = card?.querySelector(`.colour-${name}`) ?? null;
    return probe === null ? '#888' : getComputedStyle(probe).color;
  };
  return { line: read('line'), 'line-2': read('line-2'), 'line-3': read('line-3'), axis: read('axis'), rule: read('rule') };
}
