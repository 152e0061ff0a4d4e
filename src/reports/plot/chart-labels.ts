/** Labels of lines, written at their ends instead of in a legend. */
import type { ChartArea } from './chart-axes.ts';
import { FONT_SIZE, textWidth } from './chart-theme.ts';
import { svgText } from './svg-element.ts';

export interface EndLabel {
  readonly text: string;
  readonly color: string;
  /** The end of the line, in pixels. */
  readonly x: number;
  readonly y: number;
}

const LINE_HEIGHT = 14;

const GAP = 8;

/**
 * Labels of lines that reach the right end go next to the chart, in the order of their lines, moved apart if they would overlap. Others go to the end of their
 * line, and are moved apart if lines end at the same step.
 */
export function drawEndLabels(labels: readonly EndLabel[], area: ChartArea): string {
  const isShort = ({ text, x }: EndLabel) => x + GAP + textWidth(text, FONT_SIZE.tick) < area.right;
  const beside = labels.filter((label) => !isShort(label)).map((label) => ({ ...label, x: area.right }));
  return [
    ...[...Map.groupBy(labels.filter(isShort), ({ x }) => x).values()].flatMap((together) => drawColumn(together, area)),
    ...drawColumn(beside, area),
  ].join('');
}

/** Labels at the same x. */
function drawColumn(labels: readonly EndLabel[], area: ChartArea): string[] {
  const ordered = labels.toSorted((a, b) => a.y - b.y);
  const positions = spread(
    ordered.map(({ y }) => y),
    area,
  );
  return ordered.map((label, i) => drawLabel(label, { x: label.x, y: positions[i]! }));
}

function drawLabel({ text, color }: EndLabel, { x, y }: { readonly x: number; readonly y: number }): string {
  return svgText(text, { class: 'end-label', x: x + GAP, y: y + 4, fill: color, 'font-size': FONT_SIZE.tick });
}

/** Ascending positions at least a line apart, each close to its wanted position: one pass pushes them down, a second one back up. */
function spread(wanted: readonly number[], { top, bottom }: ChartArea): number[] {
  const positions: number[] = [];
  for (const y of wanted) positions.push(Math.max(y, (positions.at(-1) ?? top - LINE_HEIGHT) + LINE_HEIGHT));
  let limit = bottom;
  for (let i = positions.length - 1; i >= 0; i--) {
    positions[i] = Math.min(positions[i]!, limit);
    limit = positions[i]! - LINE_HEIGHT;
  }
  return positions;
}
