/** Scales of a chart with ticks, grid lines and labels. */
import { type ScaleContinuousNumeric, scaleLinear, scaleLog } from 'd3-scale';
import { countText } from '../text/number-text.ts';
import { COLORS, FONT_SIZE } from './chart-theme.ts';
import { svgElement, svgText } from './svg-element.ts';

/** The plotting area, in pixels. */
export interface ChartArea {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export type ChartScale = ScaleContinuousNumeric<number, number>;

export interface ValueRange {
  /** Bounds that the axis must include; the data may exceed them. Linear axes only. */
  readonly from?: number;
  readonly to?: number;
  /** Logarithmic, with a place for 0 one decade below the smallest value. Linear if no value is above 0. */
  readonly logarithmic?: boolean;
}

/** Steps from left to right. A single step is centred. */
export function stepScale(steps: readonly number[], { left, right }: ChartArea): ChartScale {
  const [low, high] = [Math.min(...steps), Math.max(...steps)];
  return scaleLinear()
    .domain(steps.length === 0 ? [0, 1] : low === high ? [low - 1, high + 1] : [low, high])
    .range([left, right]);
}

/** Values from the bottom up, extended to whole ticks. */
export function valueScale(values: readonly number[], range: ValueRange, area: ChartArea): ChartScale {
  const positive = values.filter((value) => value > 0);
  if (range.logarithmic && positive.length > 0) return logarithmicScale(positive, { ...area, hasZero: positive.length < values.length });
  return linearScale(values, range.logarithmic ? { from: 0 } : range, area);
}

interface LogarithmicScale extends ChartScale {
  /** The value at which 0 is drawn; null if no value is 0. */
  readonly zero: number | null;
}

function logarithmicScale(positive: readonly number[], { top, bottom, hasZero }: ChartArea & { readonly hasZero: boolean }): LogarithmicScale {
  const low = Math.floor(Math.log10(Math.min(...positive)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...positive))), low + 1);
  const zero = hasZero ? 10 ** (low - 1) : null;
  const scale = scaleLog()
    .domain([zero ?? 10 ** low, 10 ** high])
    .range([bottom, top])
    .clamp(true);
  return Object.assign(scale, { zero });
}

function linearScale(values: readonly number[], range: ValueRange, { top, bottom }: ChartArea): ChartScale {
  const ends = [...values, ...(range.from === undefined ? [] : [range.from]), ...(range.to === undefined ? [] : [range.to])];
  const [low, high] = ends.length === 0 ? [0, 1] : [Math.min(...ends), Math.max(...ends)];
  // A flat line gets room above and below: its own magnitude, or 1 at 0.
  const room = low === high ? Math.abs(low) || 1 : 0;
  return scaleLinear()
    .domain([low - (range.from === low ? 0 : room), high + room])
    .nice(tickCount(bottom - top))
    .range([bottom, top]);
}

export interface Axes {
  readonly area: ChartArea;
  readonly x: ChartScale;
  readonly y: ChartScale;
  /** Label under the x axis; null if a chart below has it. */
  readonly xLabel: string | null;
}

export function drawAxes({ area, x, y, xLabel }: Axes): string {
  const { left, right, bottom } = area;
  const ticks = valueTicks(y, area);
  const grid = ticks.map(({ value }) =>
    svgElement('line', { class: 'grid', x1: left, x2: right, y1: crisp(y(value)), y2: crisp(y(value)), stroke: COLORS.grid, 'stroke-width': 1 }),
  );
  const tickText = { fill: COLORS.muted, 'font-size': FONT_SIZE.tick };
  const values = ticks.map(({ value, text }) => svgText(text, { class: 'y-tick', x: left - 7, y: y(value) + 4, 'text-anchor': 'end', ...tickText }));
  const steps = stepTicks(x, right - left).flatMap((step) => [
    svgElement('line', { x1: crisp(x(step)), x2: crisp(x(step)), y1: bottom, y2: bottom + 4, stroke: COLORS.muted, 'stroke-width': 1 }),
    svgText(groupedText(step), { class: 'x-tick', x: x(step), y: bottom + 17, 'text-anchor': 'middle', ...tickText }),
  ]);
  const base = svgElement('line', { x1: left, x2: right, y1: crisp(bottom), y2: crisp(bottom), stroke: COLORS.muted, 'stroke-width': 1 });
  const label =
    xLabel === null
      ? []
      : [
          svgText(xLabel, {
            class: 'x-label',
            x: (left + right) / 2,
            y: bottom + 36,
            'text-anchor': 'middle',
            fill: COLORS.ink,
            'font-size': FONT_SIZE.label,
          }),
        ];
  return [...grid, base, ...values, ...steps, ...label].join('');
}

/** Whole steps only. */
function stepTicks(x: ChartScale, width: number): number[] {
  return x.ticks(Math.max(2, Math.min(10, Math.floor(width / 48)))).filter(Number.isInteger);
}

function valueTicks(y: ChartScale, { top, bottom }: ChartArea): { value: number; text: string }[] {
  if (!isLogarithmic(y)) {
    const count = tickCount(bottom - top);
    const format = y.tickFormat(count);
    const size = Math.max(...y.domain().map(Math.abs));
    // d3 writes thousands with a comma and a negative number with U+2212.
    return y.ticks(count).map((value) => ({ value, text: size < 1e-3 ? tinyText(value, Math.floor(Math.log10(size))) : format(value) }));
  }
  const [from, to] = y.domain().map((value) => Math.round(Math.log10(value))) as [number, number];
  const every = Math.ceil((to - from) / Math.max(1, tickCount(bottom - top)));
  return Array.from({ length: Math.floor((to - from) / every) + 1 }, (_, i) => ({
    value: 10 ** (from + i * every),
    text: i === 0 && y.zero !== null ? '0' : powerText(from + i * every),
  }));
}

function isLogarithmic(scale: ChartScale): scale is LogarithmicScale {
  return 'zero' in scale;
}

function tickCount(height: number): number {
  return Math.max(2, Math.round(height / 45));
}

const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹';

/** For example `10⁻⁶`; small exponents become plain numbers, which are easier to read. */
function powerText(exponent: number): string {
  if (exponent >= -2 && exponent <= 3) return groupedText(10 ** exponent);
  return `10${superscript(exponent)}`;
}

/** Avoids long rows of zeros: `1.5×10⁻⁵`. */
function tinyText(value: number, exponent: number): string {
  if (value === 0) return '0';
  const mantissa = String(Number((Math.abs(value) / 10 ** exponent).toPrecision(3)));
  return `${value < 0 ? '−' : ''}${mantissa}×10${superscript(exponent)}`;
}

function superscript(exponent: number): string {
  const digits = String(Math.abs(exponent)).replace(/\d/g, (digit) => SUPERSCRIPTS[Number(digit)]!);
  return `${exponent < 0 ? '⁻' : ''}${digits}`;
}

/** 0.01 as `0.01`, 12000 as `12,000`. */
function groupedText(value: number): string {
  return value < 1 ? String(value) : countText(value);
}

/** The middle of a pixel, where thin lines look sharp. */
function crisp(position: number): number {
  return Math.floor(position) + 0.5;
}
