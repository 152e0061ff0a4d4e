/** A plot of curves by uPlot, with intervals as bars. It draws on a canvas; names and values are in the card around it. */
import uPlot from 'uplot';
import { type CurveData, type CurveKind, smoothed } from './curve-data.ts';

export type PlotColours = Readonly<Record<'line' | 'line-2' | 'line-3' | 'axis' | 'rule', string>>;

export interface CurvePlotOptions {
  readonly weight: number;
  readonly colours: PlotColours;
  /** The index of the step at the cursor; null once it has left. */
  readonly moved: (index: number | null) => void;
}

const HEIGHT = 168;
const FONT = '11px system-ui, sans-serif';
/** Below this many points each is marked. */
const MARKED = 40;

export class CurvePlot {
  readonly #frame: HTMLElement;
  readonly #options: CurvePlotOptions;
  #colours: PlotColours;
  #data: CurveData;
  #plot: uPlot;

  constructor(frame: HTMLElement, data: CurveData, options: CurvePlotOptions) {
    this.#frame = frame;
    this.#options = options;
    this.#colours = options.colours;
    this.#data = data;
    this.#plot = this.#make();
  }

  update(data: CurveData): void {
    if (data === this.#data) return;
    this.#data = data;
    this.#plot.setData(this.#aligned());
  }

  resize(): void {
    const width = this.#frame.clientWidth;
    if (width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  recolour(colours: PlotColours): void {
    this.#colours = colours;
    this.#plot.redraw(false);
  }

  destroy(): void {
    this.#plot.destroy();
  }

  #make(): uPlot {
    const axis: uPlot.Axis = {
      stroke: () => this.#colours.axis,
      font: FONT,
      grid: { stroke: () => this.#colours.rule, width: 1 },
      ticks: { stroke: () => this.#colours.rule, width: 1, size: 4 },
    };
    const options: uPlot.Options = {
      width: Math.max(100, this.#frame.clientWidth),
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: 'curves' }, points: { size: 7 }, y: false, focus: { prox: -1 } },
      scales: { x: { time: false }, y: { range: padded } },
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
    return this.#data.curves.flatMap(({ kind, values }) => {
      const stroke = () => this.#colours[this.#line(kind)];
      const points = { show: values.length <= MARKED || kind !== 'step', size: kind === 'step' ? 4 : 6, fill: stroke };
      const series: uPlot.Series = { stroke, width: kind === 'step' ? 1.5 : 2, spanGaps: true, points };
      if (this.#options.weight === 0) return [series];
      return [
        { ...series, alpha: 0.28, points: { show: false } },
        { ...series, points: { show: false } },
      ];
    });
  }

  #line(kind: CurveKind): 'line' | 'line-2' | 'line-3' {
    if (this.#data.curves.length === 1) return 'line';
    return kind === 'step' ? 'line-2' : kind === 'evaluation' ? 'line' : 'line-3';
  }

  #aligned(): uPlot.AlignedData {
    const { steps, curves } = this.#data;
    const values = curves.flatMap((curve) =>
      this.#options.weight === 0 ? [curve.values] : [curve.values, smoothed(curve.values, this.#options.weight)],
    );
    return [[...steps], ...values.map((one) => [...one])];
  }

  #drawBounds(plot: uPlot): void {
    const { ctx } = plot;
    for (const { kind, bounds } of this.#data.curves) {
      if (bounds === null) continue;
      ctx.save();
      ctx.strokeStyle = this.#colours[this.#line(kind)];
      ctx.globalAlpha = 0.45;
      ctx.lineWidth = 3 * devicePixelRatio;
      ctx.beginPath();
      for (const [i, ends] of bounds.entries()) {
        const step = this.#data.steps[i];
        if (ends === null || step === undefined) continue;
        const x = plot.valToPos(step, 'x', true);
        ctx.moveTo(x, plot.valToPos(ends[0], 'y', true));
        ctx.lineTo(x, plot.valToPos(ends[1], 'y', true));
      }
      ctx.stroke();
      ctx.restore();
    }
  }
}

/** A twentieth more on both sides; a constant in the middle. */
function padded(_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low === null || high === null) return [0, 1];
  const more = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - more, high + more];
}

function axisNumber(value: number | null): string {
  if (value === null) return '';
  const size = Math.abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-3)) return value.toExponential(0).replace('e+', 'e');
  return String(Number(value.toPrecision(4))).replace('-', '\u2212');
}
