/** Divides the columns of a bar between its parts. */

/**
 * Columns of each part of a bar that is `width` columns wide: proportional, and at least one for each nonzero part. Sums to `width` if there is a part
 * and room for all.
 */
export function barColumns(parts: readonly number[], width: number): number[] {
  const total = parts.reduce((sum, part) => sum + part, 0);
  if (!(total > 0)) return parts.map(() => 0);
  const exact = parts.map((part) => (part / total) * width);
  const columns = exact.map((share, i) => (parts[i]! > 0 ? Math.max(1, Math.floor(share)) : 0));
  for (let rest = width - columns.reduce((sum, n) => sum + n, 0); rest !== 0; rest -= Math.sign(rest)) {
    // A missing column goes to the part that lacks most; a surplus one comes from the widest.
    const score = rest > 0 ? exact.map((share, i) => (parts[i]! > 0 ? share - columns[i]! : -Infinity)) : columns;
    const i = score.indexOf(Math.max(...score));
    if (rest < 0 && columns[i]! <= 1) break;
    columns[i]! += Math.sign(rest);
  }
  return columns;
}
