/** Charts over training steps, as SVG. Null values are skipped or leave a gap; they are never drawn as zeros. */
import { area as areaPath, line as linePath } from 'd3-shape';
import { type ChartArea, type ChartScale, type ValueRange, drawAxes, stepScale, valueScale } from './chart-axes.ts';
import { drawEndLabels, type EndLabel } from './chart-labels.ts';
import { COLORS, FONT_FAMILY, FONT_SIZE, textWidth } from './chart-theme.ts';
import { clip } from '../text/terminal-text.ts';
import { svgContent, svgElement, svgText } from './svg-element.ts';

export interface ChartPoint {
  readonly step: number;
  readonly value: number | null;
  /** Ends of the value's interval, drawn as a bar. */
  readonly low?: number | null;
  readonly high?: number | null;
}

export interface ChartLine {
  /** Written at the end of the line; null for none. */
  readonly label: string | null;
  readonly color: string;
  readonly points: readonly ChartPoint[];
  /** Line width in pixels; 2 by default, 0 for points only. */
  readonly width?: number;
  /** 1 by default. */
  readonly opacity?: number;
  readonly dashed?: boolean;
  /** Null values interrupt the line. Default: it joins the values around them. */
  readonly hasGaps?: boolean;
  /** Radius of a mark at each point; 0 by default. */
  readonly mark?: number;
}

/** Parts of a sum, stacked; the first is the lowest. */
export interface ChartStack {
  /** A value per column. */
  readonly parts: readonly { readonly label: string; readonly color: string; readonly values: readonly number[] }[];
  /** The steps that each column covers, ascending. A column reaches half a step beyond both. */
  readonly columns: readonly { readonly first: number; readonly last: number }[];
}

export interface LineChart {
  /** The quantity on the y axis, with its unit; written horizontally above the axis. */
  readonly title: string;
  readonly lines: readonly ChartLine[];
  readonly stack?: ChartStack;
  readonly range?: ValueRange;
  /** Dashed horizontal lines with labels. */
  readonly goals?: readonly { readonly value: number; readonly label: string }[];
  /** Thin vertical lines with labels. The x axis includes their steps. */
  readonly rules?: readonly { readonly step: number; readonly label: string }[];
  /** Null if a chart below has it. */
  readonly xLabel: string | null;
  /** Range of the x axis, to compare charts. Default: the data's steps. */
  readonly steps?: readonly [first: number, last: number];
}

/** Position and size of a chart, in pixels. */
export interface ChartBox {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** Room for labels on the right. Default: the room that the chart needs. */
  readonly labelRoom?: number;
}

/** A complete SVG document with one chart. */
export function lineChart(chart: LineChart, size: { readonly width: number; readonly height: number; readonly heading: string }): string {
  const { width, height, heading } = size;
  const panel = chartPanel(chart, { x: 0, y: 34, width, height: height - 34 });
  return svgDocument({ width, height, heading }, panel);
}

export function svgDocument(
  size: { readonly width: number; readonly height: number; readonly heading: string },
  ...children: readonly string[]
): string {
  const { width, height, heading } = size;
  const frame = { xmlns: 'http://www.w3.org/2000/svg', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'font-family': FONT_FAMILY };
  const columns = Math.floor((width - 32) / textWidth('n', FONT_SIZE.title));
  const title = svgText(clip(heading, columns), { class: 'heading', x: 16, y: 27, fill: COLORS.ink, 'font-size': FONT_SIZE.title });
  // Screen readers read the title element.
  const spoken = svgElement('title', {}, svgContent(heading));
  return `${svgElement('svg', frame, spoken, svgElement('rect', { width, height, fill: COLORS.paper }), title, ...children)}\n`;
}

/** One chart as part of a figure. */
export function chartPanel(chart: LineChart, box: ChartBox): string {
  const { lines, stack, range = {}, goals = [], rules = [], xLabel } = chart;
  const known = lines.map((line) => ({
    ...line,
    points: line.points.filter((point) => isDrawable(point.value, range)),
    pieces: pieces(line, range),
  }));
  const area: ChartArea = {
    left: box.x + 60,
    top: box.y + 34,
    right: box.x + box.width - (box.labelRoom ?? labelRoom(chart)),
    bottom: box.y + box.height - (xLabel === null ? 28 : 46),
  };
  const title = svgText(chart.title, { class: 'title', x: box.x + 16, y: box.y + 18, fill: COLORS.ink, 'font-size': FONT_SIZE.label });
  const steps = [...known.flatMap(({ points }) => points.map(({ step }) => step)), ...(stack === undefined ? [] : stackEnds(stack))];
  if (steps.length === 0) return svgElement('g', { class: 'panel' }, title, notMeasured(area));
  const x = stepScale([...steps, ...rules.map(({ step }) => step), ...(chart.steps ?? [])], area);
  const y = valueScale(
    [...known.flatMap(({ points }) => points.flatMap(pointValues)), ...stackTotals(stack), ...goals.map(({ value }) => value)],
    range,
    area,
  );
  const labels = [...stackLabels(stack, { x, y }), ...known.flatMap((line) => endLabel(line, { x, y }))];
  return svgElement(
    'g',
    { class: 'panel' },
    title,
    stack === undefined ? '' : drawStack(stack, { x, y }),
    drawAxes({ area, x, y, xLabel }),
    ...rules.map((rule) => drawRule(rule, { area, x })),
    ...known.map((line) => drawLine(line, { x, y, range })),
    ...goals.map((goal) => drawGoal(goal, { area, y })),
    drawEndLabels(labels, area),
  );
}

/** Width in pixels of the longest label next to a chart. */
export function labelRoom({ lines, stack }: LineChart): number {
  const labels = [...lines.flatMap(({ label }) => label ?? []), ...(stack?.parts.map(({ label }) => label) ?? [])];
  return Math.max(16, ...labels.map((label) => textWidth(label, FONT_SIZE.tick) + 14));
}

/** A logarithmic axis has a place for 0, none for negative values. */
function isDrawable(value: number | null, { logarithmic = false }: ValueRange): value is number {
  return value !== null && Number.isFinite(value) && (!logarithmic || value >= 0);
}

function pointValues({ value, low = null, high = null }: ChartPoint): number[] {
  return [value, low, high].filter((some): some is number => some !== null && Number.isFinite(some));
}

function notMeasured({ left, right, top, bottom }: ChartArea): string {
  const middle = { x: (left + right) / 2, y: (top + bottom) / 2, 'text-anchor': 'middle' };
  return svgText('not measured', { ...middle, fill: COLORS.grey, 'font-size': FONT_SIZE.label });
}

interface Scales {
  readonly x: ChartScale;
  readonly y: ChartScale;
}

/** A line's points in the pieces that its path joins. */
type Pieces = readonly (readonly ChartPoint[])[];

function pieces({ points, hasGaps = false }: ChartLine, range: ValueRange): Pieces {
  if (!hasGaps) return [points.filter(({ value }) => isDrawable(value, range))];
  const found: ChartPoint[][] = [[]];
  for (const point of points) {
    if (isDrawable(point.value, range)) found.at(-1)!.push(point);
    else found.push([]);
  }
  return found;
}

/** Path, intervals and marks. */
function drawLine(line: ChartLine & { readonly pieces: Pieces }, { x, y, range }: Scales & { readonly range: ValueRange }): string {
  const { color, points, width = 2, opacity = 1, dashed = false, mark = 0 } = line;
  const joined = linePath<ChartPoint>()
    .x(({ step }) => x(step))
    .y(({ value }) => y(value!));
  const path = line.pieces
    .filter(({ length }) => length > 1)
    .map((piece) => joined(piece) ?? '')
    .join('');
  const stroke = { fill: 'none', stroke: color, 'stroke-width': width, 'stroke-opacity': opacity, 'stroke-linejoin': 'round' };
  const intervals = points.flatMap(({ step, low = null, high = null }) =>
    isDrawable(low, range) && isDrawable(high, range)
      ? [
          svgElement('line', {
            class: 'interval',
            x1: x(step),
            x2: x(step),
            y1: y(low),
            y2: y(high),
            stroke: color,
            'stroke-width': 1.5,
            'stroke-opacity': 0.55,
          }),
        ]
      : [],
  );
  // A point without neighbours would be invisible.
  const dots = line.pieces.flatMap((piece) => {
    const radius = piece.length === 1 ? Math.max(mark, 2.2) : mark;
    if (radius === 0) return [];
    return piece.map(({ step, value }) => svgElement('circle', { cx: x(step), cy: y(value!), r: radius, fill: color, 'fill-opacity': opacity }));
  });
  const drawn =
    width === 0 || path === '' ? [] : [svgElement('path', { d: roundedPath(path), 'stroke-dasharray': dashed ? '6 4' : null, ...stroke })];
  return svgElement('g', { class: 'series' }, ...drawn, ...intervals, ...dots);
}

function endLabel({ label, color, points }: ChartLine, { x, y }: Scales): EndLabel[] {
  const last = points.at(-1);
  return label === null || last === undefined ? [] : [{ text: label, color, x: x(last.step), y: y(last.value!) }];
}

/** The label is at the top, on the side that has room for it. */
function drawRule(
  { step, label }: { readonly step: number; readonly label: string },
  { area, x }: { readonly area: ChartArea; readonly x: ChartScale },
): string {
  const at = x(step);
  const line = { x1: at, x2: at, y1: area.top, y2: area.bottom, stroke: COLORS.grey, 'stroke-width': 1 };
  const isRight = at + 6 + textWidth(label, FONT_SIZE.tick) <= area.right;
  const place = isRight ? { x: at + 6 } : { x: at - 6, 'text-anchor': 'end' };
  const text = svgText(label, { ...place, y: area.top + 10, fill: COLORS.muted, 'font-size': FONT_SIZE.tick, ...RIM });
  return svgElement('g', { class: 'rule' }, svgElement('line', line), text);
}

/** In the paper's colour, because lines may run behind the text. */
const RIM = { stroke: COLORS.paper, 'stroke-width': 4, 'stroke-linejoin': 'round', 'paint-order': 'stroke' };

function drawGoal(
  { value, label }: { readonly value: number; readonly label: string },
  { area, y }: { readonly area: ChartArea; readonly y: ChartScale },
): string {
  const height = y(value);
  const line = { x1: area.left, x2: area.right, y1: height, y2: height, stroke: COLORS.muted, 'stroke-width': 1.2, 'stroke-dasharray': '5 4' };
  const text = svgText(label, { x: area.left + 8, y: height - 6, fill: COLORS.muted, 'font-size': FONT_SIZE.tick, ...RIM });
  return svgElement('g', { class: 'goal' }, svgElement('line', line), text);
}

function stackTotals(stack: ChartStack | undefined): number[] {
  if (stack === undefined) return [];
  return [0, ...stack.columns.map((_, i) => stack.parts.reduce((sum, { values }) => sum + values[i]!, 0))];
}

/** Both ends of the columns, for the x axis to include. */
export function stackEnds({ columns }: ChartStack): number[] {
  return columns.length === 0 ? [] : [columns[0]!.first - 0.5, columns.at(-1)!.last + 0.5];
}

function drawStack({ parts, columns }: ChartStack, { x, y }: Scales): string {
  const floor = columns.map(() => 0);
  const areas = parts.map(({ color, values }) => {
    const bounds = values.flatMap((value, i) => {
      const [low, high] = [floor[i]!, (floor[i] = floor[i]! + value)];
      const { first, last } = columns[i]!;
      return [first - 0.5, last + 0.5].map((step) => ({ step, low, high }));
    });
    const path = areaPath<(typeof bounds)[number]>()
      .x(({ step }) => x(step))
      .y0(({ low }) => y(low))
      .y1(({ high }) => y(high))(bounds);
    return svgElement('path', { class: 'part', d: roundedPath(path ?? ''), fill: color, 'fill-opacity': 0.85 });
  });
  return svgElement('g', { class: 'stack' }, ...areas);
}

/** Labels at the middle of each part of the last step. */
function stackLabels(stack: ChartStack | undefined, { x, y }: Scales): EndLabel[] {
  const right = x.range()[1]!;
  let floor = 0;
  return (stack?.parts ?? []).flatMap(({ label, color, values }) => {
    const last = values.at(-1) ?? 0;
    floor += last;
    return last === 0 ? [] : [{ text: label, color, x: right, y: y(floor - last / 2) }];
  });
}

function roundedPath(path: string): string {
  return path.replace(/-?(?<!\d)\d+\.\d+/g, (number) => String(Math.round(Number(number) * 100) / 100));
}
