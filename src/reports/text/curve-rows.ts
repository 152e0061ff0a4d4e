/** Draws a series over the steps of a run as rows of block characters. The width spans all steps of the run; future steps stay empty. */

export interface CurveOptions {
  /** Columns, from 1. */
  readonly width: number;
  /** Rows, from 1; each has eight levels. */
  readonly height: number;
  /** Steps of the whole run. */
  readonly steps: number;
  /** Values that span less are not stretched to the full height. */
  readonly leastSpan: number;
}

/** The values at the bottom and the top of the drawn curve. */
export interface CurveAxis {
  readonly low: number;
  readonly high: number;
}

export interface CurvePoint {
  /** Counted from 1. */
  readonly step: number;
  readonly value: number;
}

const LEVELS = ' ▁▂▃▄▅▆▇█';

/** Begins at the lowest value and ends at the highest, or higher if the values span less than `leastSpan`. */
export function curveAxis(points: readonly CurvePoint[], leastSpan: number): CurveAxis {
  const values = points.map(({ value }) => value);
  const low = Math.min(...values);
  return { low, high: Math.max(low + leastSpan, ...values) };
}

/** Returns the rows from the top, each `width` columns. A column shows the mean of its steps; a step may fill several columns. */
export function curveRows(points: readonly CurvePoint[], { width, height, steps, leastSpan }: CurveOptions): string[] {
  const { low, high } = curveAxis(points, leastSpan);
  const known = new Map(points.map(({ step, value }) => [step, value]));
  const levels = Array.from({ length: width }, (_, column) => {
    const mean = meanOf(known, column, { width, steps });
    // 1 +, so that the lowest value is visible too.
    return mean === null ? 0 : 1 + Math.round(((mean - low) / (high - low)) * (height * 8 - 1));
  });
  return Array.from({ length: height }, (_, row) => {
    const below = (height - 1 - row) * 8;
    return levels.map((level) => LEVELS[Math.min(8, Math.max(0, level - below))]).join('');
  });
}

/** Mean over the steps of a column; null if none of them has a value. */
function meanOf(known: ReadonlyMap<number, number>, column: number, { width, steps }: Pick<CurveOptions, 'width' | 'steps'>): number | null {
  const first = Math.floor((column * steps) / width) + 1;
  const last = Math.max(first, Math.ceil(((column + 1) * steps) / width));
  const isShared = steps <= width;
  let [sum, count] = [0, 0];
  for (let step = first; step <= (isShared ? first : last); step++) {
    const value = known.get(step);
    if (value !== undefined) [sum, count] = [sum + value, count + 1];
  }
  return count === 0 ? null : sum / count;
}
