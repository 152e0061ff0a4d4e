/** One metric of several trainings over the steps, with the values of each at the cursor. */
import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import { type CurveKind, lastAt } from '../curves/curve-data.ts';
import { ColourProbe, useCurvePlot } from '../curves/use-curve-plot.tsx';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { letterOf } from '../compare/compare-figures.tsx';
import { Tip } from '../frame/tip.tsx';
import { plainText } from '../text/marked-text.ts';
import { Text } from '../text/text.tsx';
import { type OverlaidCurves, overlaidCurves, type OverlaidGroup } from './overlay-data.ts';
import { colourOf, dashOf, RunSwatch } from './overlay-look.tsx';

export interface OverlayCardProps {
  readonly metric: string;
  /** Null if the metric has no description. */
  readonly meaning: string | null;
  /** All of them, for their colours. */
  readonly groups: readonly OverlaidGroup[];
  readonly isHidden: (group: OverlaidGroup) => boolean;
  readonly kinds: readonly CurveKind[];
  /** The weight of smoothing; 0: none. */
  readonly weight: number;
  /** Fills the width of the screen. */
  readonly isLarge: boolean;
}

const NAMES: Readonly<Record<CurveKind, string>> = { step: 'training', evaluation: 'held out', validation: 'validation' };
const HEIGHT = { small: 168, large: 320 } as const;
/** Pixels between the bars of two runs at one step. */
const APART = 4;

export function OverlayCard({ metric, meaning, groups, isHidden, kinds, weight, isLarge }: OverlayCardProps): VNode {
  const hidden = groups.filter(isHidden).map(({ key }) => key);
  const data = useMemo(() => {
    const { steps, curves } = overlaidCurves(groups, metric, kinds);
    return { steps, curves: curves.filter(({ group }) => !hidden.includes(groups[group]!.key)) };
  }, [groups, metric, kinds.join(), hidden.join('\n')]);
  const drawn = useMemo(() => ({ steps: data.steps, curves: data.curves.map((curve) => looks(curve, data.curves)) }), [data]);
  const { card, frame, index } = useCurvePlot(drawn, { weight, height: isLarge ? HEIGHT.large : HEIGHT.small });
  const shown = [...new Set(data.curves.map(({ group }) => group))].toSorted((a, b) => a - b);
  return (
    <section ref={card} class={isLarge ? 'curve large' : 'curve'}>
      <header class="curve-head">
        <h3>{meaning === null ? <Text text={metric} /> : <Tip label={metric} tip={meaning} />}</h3>
        <span class="quiet-text">step {data.steps[index] === undefined ? '\u2013' : formatCount(data.steps[index])}</span>
        <ul class="curve-values overlay-values">
          {shown.map((group) => (
            <li key={group}>
              <RunSwatch index={group} /> {isLarge && <Text text={groups[group]!.label} />}{' '}
              {data.curves
                .filter((curve) => curve.group === group)
                .map((curve) => (
                  <Value key={curve.kind} curve={curve} index={index} />
                ))}
            </li>
          ))}
        </ul>
      </header>
      {shown.length === 0 && <p class="quiet-text">None of the runs shown has this metric.</p>}
      <div ref={frame} class="curve-frame" role="img" aria-label={plainText(describe(metric, groups, data))} />
      <ColourProbe />
    </section>
  );
}

type One = OverlaidCurves['curves'][number];

/** Where held-out figures are on the same plot, those of training step back. */
function looks(curve: One, all: readonly One[]) {
  const { kind, group, values, bounds, isJoint } = curve;
  const groups = [...new Set(all.map((one) => one.group))];
  return {
    values,
    bounds,
    colour: colourOf(group),
    dash: dashOf(group),
    isFine: kind === 'step',
    isFaint: kind === 'step' && all.some((one) => one.kind === 'evaluation'),
    isBand: isJoint,
    shift: (groups.indexOf(group) - (groups.length - 1) / 2) * APART,
  };
}

function Value({ curve: { kind, values, bounds, isJoint }, index }: { readonly curve: One; readonly index: number }): VNode {
  const at = lastAt(values, index);
  const ends = bounds?.[at] ?? null;
  const title = ends === null ? undefined : `${isJoint ? 'over seeds' : '95 % interval'} ${formatNumber(ends[0])} to ${formatNumber(ends[1])}`;
  return (
    <span class="curve-value" title={title}>
      <span class="curve-kind">{NAMES[kind]}</span> {formatNumber(values[at])}{' '}
    </span>
  );
}

function describe(metric: string, groups: readonly OverlaidGroup[], { steps, curves }: OverlaidCurves): string {
  const parts = curves.map(({ kind, group, values }) => {
    const known = values.filter((value) => value !== null);
    return `${letterOf(group)} ${groups[group]!.label}, ${NAMES[kind]}, from ${formatNumber(known[0])} to ${formatNumber(known.at(-1))}`;
  });
  return `${metric} over steps ${steps[0] ?? 0} to ${steps.at(-1) ?? 0}: ${parts.join('; ')}`;
}
