/** A plot of curves by uPlot, with intervals as bars or bands. It draws on a canvas; names and values are in the card around it. */
import uPlot from 'uplot';
import { type Curve, smoothed } from './curve-data.ts';

/** A curve with its look. */
export interface PlotCurve extends Pick<Curve, 'values' | 'bounds'> {
  /** Name of a colour of the style. */
  readonly colour: string;
  /** One value for each step of training: thinner, and marked only if there are few. */
  readonly isFine: boolean;
  /** Steps back behind the others. */
  readonly isFaint?: boolean;
  /** Draws the bounds as an area; else each as a bar. */
  readonly isBand?: boolean;
  /** Lengths of strokes and gaps; empty for a solid line. */
  readonly dash?: readonly number[];
  /** Moves its bars to the side, in pixels, so that those of several curves at one step stay apart. */
  readonly shift?: number;
}

export interface PlotData {
  readonly steps: readonly number[];
  readonly curves: readonly PlotCurve[];
}

/** By name; `axis` and `rule` among them. */
export type PlotColours = Readonly<Record<string, string>>;

export interface CurvePlotOptions {
  readonly weight: number;
  /** Pixels. */
  readonly height: number;
  readonly colours: PlotColours;
  /** The index of the step at the cursor; null once it has left. */
  readonly moved: (index: number | null) => void;
}

const FONT = '11px system-ui, sans-serif';
/** Below this many points each is marked. */
const MARKED = 40;
const FAINT = 0.4;

export class CurvePlot {
  readonly #frame: HTMLElement;
  readonly #options: CurvePlotOptions;
  #colours: PlotColours;
  #data: PlotData;
  #plot: uPlot;

  constructor(frame: HTMLElement, data: PlotData, options: CurvePlotOptions) {
    this.#frame = frame;
    this.#options = options;
    this.#colours = options.colours;
    this.#data = data;
    this.#plot = this.#make();
  }

  update(data: PlotData): void {
    if (data === this.#data) return;
    this.#data = data;
    this.#plot.setData(this.#aligned());
  }

  resize(): void {
    const width = this.#frame.clientWidth;
    if (width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: this.#options.height });
  }

  recolour(colours: PlotColours): void {
    this.#colours = colours;
    this.#plot.redraw(false);
  }

  destroy(): void {
    this.#plot.destroy();
  }

  #colour(name: string): string {
    return this.#colours[name] ?? '#888';
  }

  #make(): uPlot {
    const axis: uPlot.Axis = {
      stroke: () => this.#colour('axis'),
      font: FONT,
      grid: { stroke: () => this.#colour('rule'), width: 1 },
      ticks: { stroke: () => this.#colour('rule'), width: 1, size: 4 },
    };
    const options: uPlot.Options = {
      width: Math.max(100, this.#frame.clientWidth),
      height: this.#options.height,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: 'curves' }, points: { size: 7 }, y: false, focus: { prox: -1 } },
      scales: { x: { time: false }, y: { range: (plot, low, high) => this.#range(plot, low, high) } },
      axes: [
        { ...axis, size: 26, space: 60, values: (_, splits) => splits.map((split) => (Number.isInteger(split) ? String(split) : '')) },
        { ...axis, size: 52, space: 34, values: (_, splits) => splits.map(axisNumber) },
      ],
      series: [{}, ...this.#series()],
      hooks: {
        setCursor: [({ cursor: { idx, left } }) => this.#options.moved(idx === null || idx === undefined || (left ?? -1) < 0 ? null : idx)],
        draw: [(plot) => this.#drawBounds(plot)],
      },
    };
    return new uPlot(options, this.#aligned(), this.#frame);
  }

  /** Each curve twice if it is smoothed: as measured, faint, and smooth. */
  #series(): uPlot.Series[] {
    return this.#data.curves.flatMap(({ colour, isFine, isFaint = false, dash = [], values }) => {
      const stroke = () => this.#colour(colour);
      const points = { show: values.length <= MARKED || !isFine, size: isFine ? 4 : 6, fill: stroke };
      const series: uPlot.Series = { stroke, width: isFine ? 1.5 : 2, spanGaps: true, points, dash: [...dash], alpha: isFaint ? FAINT : 1 };
      if (this.#options.weight === 0) return [series];
      return [
        { ...series, alpha: 0.28 * (series.alpha ?? 1), points: { show: false } },
        { ...series, points: { show: false } },
      ];
    });
  }

  #aligned(): uPlot.AlignedData {
    const { steps, curves } = this.#data;
    const values = curves.flatMap((curve) =>
      this.#options.weight === 0 ? [curve.values] : [curve.values, smoothed(curve.values, this.#options.weight)],
    );
    return [[...steps], ...values.map((one) => [...one])];
  }

  /** Holds the values and bounds in view, and a twentieth more on both sides; a constant is in the middle. */
  #range(plot: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
    if (low === null || high === null) return [0, 1];
    // Null before the first drawing.
    const { min, max } = plot.scales['x'] ?? {};
    let [least, most] = [low, high];
    for (const { bounds } of this.#data.curves)
      for (const [i, ends] of (bounds ?? []).entries()) {
        const step = this.#data.steps[i]!;
        if (ends === null || step < (min ?? -Infinity) || step > (max ?? Infinity)) continue;
        [least, most] = [Math.min(least, ends[0]), Math.max(most, ends[1])];
      }
    const more = (most - least) * 0.06 || Math.abs(most) * 0.1 || 1;
    return [least - more, most + more];
  }

  #drawBounds(plot: uPlot): void {
    const { ctx } = plot;
    for (const curve of this.#data.curves) {
      const ends = this.#ends(plot, curve);
      if (ends.length === 0) continue;
      ctx.save();
      ctx.beginPath();
      ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
      ctx.clip();
      ctx.strokeStyle = ctx.fillStyle = this.#colour(curve.colour);
      ctx.lineWidth = 3 * devicePixelRatio;
      ctx.globalAlpha = (curve.isBand === true ? 0.16 : 0.45) * (curve.isFaint === true ? FAINT : 1);
      ctx.beginPath();
      if (curve.isBand === true) fillBetween(ctx, ends);
      else strokeEach(ctx, ends);
      ctx.restore();
    }
  }

  #ends(plot: uPlot, { bounds, shift = 0 }: PlotCurve): Ends[] {
    return (bounds ?? []).flatMap((ends, i) => {
      const step = this.#data.steps[i];
      if (ends === null || step === undefined) return [];
      const x = plot.valToPos(step, 'x', true) + shift * devicePixelRatio;
      return [{ x, low: plot.valToPos(ends[0], 'y', true), high: plot.valToPos(ends[1], 'y', true) }];
    });
  }
}

interface Ends {
  readonly x: number;
  readonly low: number;
  readonly high: number;
}

function strokeEach(ctx: CanvasRenderingContext2D, ends: readonly Ends[]): void {
  for (const { x, low, high } of ends) {
    ctx.moveTo(x, low);
    ctx.lineTo(x, high);
  }
  ctx.stroke();
}

function fillBetween(ctx: CanvasRenderingContext2D, ends: readonly Ends[]): void {
  for (const { x, high } of ends) ctx.lineTo(x, high);
  for (const { x, low } of ends.toReversed()) ctx.lineTo(x, low);
  ctx.fill();
}

function axisNumber(value: number | null): string {
  if (value === null) return '';
  const size = Math.abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-3)) return value.toExponential(0).replace('e+', 'e');
  return String(Number(value.toPrecision(4))).replace('-', '\u2212');
}
