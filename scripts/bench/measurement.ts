/** Measurements of a bench, printed as a table or, with `--json`, as one line for bench.ts. */

export interface Measurement {
  readonly what: string;
  readonly unit: string;
  readonly ours: number;
  /** Name of the peer. */
  readonly against: string;
  readonly peer: number;
  /** Ours / peer; smaller is better. The median over pairs of runs, which need not be the ratio of the two medians. */
  readonly ratio: number;
  /** Largest promised ratio; null if none is promised. */
  readonly bar: number | null;
}

/** One run of ours and one of the peer, in immediate succession. */
export interface Pair {
  readonly ours: number;
  readonly peer: number;
}

/** Medians of alternating runs; if the machine slows down meanwhile, it slows both. */
export function measurement(about: Pick<Measurement, 'what' | 'unit' | 'against' | 'bar'>, pairs: readonly Pair[]): Measurement {
  const ours = median(pairs.map((pair) => pair.ours));
  const peer = median(pairs.map((pair) => pair.peer));
  return { ...about, ours, peer, ratio: median(pairs.map((pair) => pair.ours / pair.peer)) };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function isOver({ ratio, bar }: Measurement): boolean {
  return bar !== null && !(ratio <= bar);
}

/** Prints the measurements; with `--json` among the arguments as one line of JSON, the last of the output. */
export function report(measurements: readonly Measurement[]): void {
  process.stdout.write(process.argv.includes('--json') ? `${JSON.stringify(measurements)}\n` : measurementTable(measurements));
}

export function measurementTable(measurements: readonly Measurement[]): string {
  const rows = measurements.map((m) => [
    m.what,
    `${figure(m.ours)} ${m.unit}`,
    `${figure(m.peer)} ${m.unit}`,
    m.against,
    m.ratio.toFixed(3),
    m.bar === null ? '-' : `<= ${figure(m.bar)}`,
    m.bar === null ? '-' : isOver(m) ? 'OVER' : 'ok',
  ]);
  return alignedRows([['what', 'ours', 'peer', '', 'ratio', 'bar', 'verdict'], ...rows]);
}

/** Three significant digits, without an exponent. */
function figure(value: number): string {
  return value >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function alignedRows(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ');
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
}
