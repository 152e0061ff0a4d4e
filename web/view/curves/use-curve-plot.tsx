/** A plot in a card: made again if its curves have another look, updated as they grow, in the colours of the theme, and as wide as the card. */
import type { RefObject, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { CurvePlot, type PlotColours, type PlotData } from './curve-plot.ts';

/** Runs beyond this many take the colours again, with dashes. */
export const RUN_COLOURS = 8;

/** The colours of the style that a plot may use. */
const COLOURS = ['line', 'line-2', 'line-3', 'axis', 'rule', ...Array.from({ length: RUN_COLOURS }, (_, i) => `run-${i}`)];

export interface UsedPlot {
  readonly card: RefObject<HTMLElement | null>;
  readonly frame: RefObject<HTMLDivElement | null>;
  /** The index of the step at the cursor, or of the last one. */
  readonly index: number;
}

export interface PlotLook {
  /** The weight of smoothing; 0: none. */
  readonly weight: number;
  /** Pixels, as the frame has in the style. */
  readonly height: number;
}

export function useCurvePlot(data: PlotData, { weight, height }: PlotLook): UsedPlot {
  const [at, setAt] = useState<number | null>(null);
  const card = useRef<HTMLElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<CurvePlot | null>(null);
  const look = JSON.stringify(data.curves, (key, value: unknown) => (key === 'values' || key === 'bounds' ? undefined : value));

  useEffect(() => {
    if (frame.current === null) return;
    const made = new CurvePlot(frame.current, data, { weight, height, colours: coloursOf(card.current), moved: setAt });
    plot.current = made;
    const resized = new ResizeObserver(() => made.resize());
    resized.observe(frame.current);
    const recolour = () => made.recolour(coloursOf(card.current));
    const soon = () => requestAnimationFrame(recolour);
    const [scheme, print] = [matchMedia('(prefers-color-scheme: dark)'), matchMedia('print')];
    addEventListener('themechange', soon);
    scheme.addEventListener('change', soon);
    print.addEventListener('change', recolour);
    return () => {
      resized.disconnect();
      removeEventListener('themechange', soon);
      scheme.removeEventListener('change', soon);
      print.removeEventListener('change', recolour);
      made.destroy();
      plot.current = null;
    };
  }, [look, weight, height]);
  useEffect(() => plot.current?.update(data), [data]);
  return { card, frame, index: at === null || at >= data.steps.length ? data.steps.length - 1 : at };
}

/** A canvas knows no variables of the style; the colours are read from these elements, which have them. */
export function ColourProbe(): VNode {
  return (
    <span class="curve-probe" aria-hidden="true">
      {COLOURS.map((name) => (
        <span key={name} class={`colour-${name}`} />
      ))}
    </span>
  );
}

function coloursOf(card: HTMLElement | null): PlotColours {
  return Object.fromEntries(
    COLOURS.flatMap((name) => {
      const probe = card?.querySelector(`.colour-${name}`) ?? null;
      return probe === null ? [] : [[name, getComputedStyle(probe).color] as const];
    }),
  );
}
