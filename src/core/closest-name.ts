/**
 * The name that a user most likely meant, for "did you mean"; null if every name differs in more than a third of its letters.
 * @param most letters that may differ, at most; a swap of neighbours is one
 */
export function closestName(name: string, known: Iterable<string>, most = Infinity): string | null {
  let best: string | null = null;
  let bestDistance = Infinity;
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best !== null && bestDistance <= Math.min(most, Math.max(1, Math.floor(best.length / 3))) ? best : null;
}

/** Optimal string alignment distance (insertions, deletions, substitutions, swaps of neighbours) of the first 64 characters. */
function editDistance(left: string, right: string): number {
  const [a, b] = [left.slice(0, 64), right.slice(0, 64)];
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let distance = Math.min(previous[j]! + 1, current[j - 1]! + 1, previous[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) distance = Math.min(distance, before[j - 2]! + 1);
      current.push(distance);
    }
    [before, previous] = [previous, current];
  }
  return previous[b.length]!;
}

/** ` (did you mean "x"?)`, or nothing. */
export function suggestion(name: string, known: Iterable<string>): string {
  const near = closestName(name, known);
  return near === null ? '' : ` (did you mean ${near}?)`;
}
