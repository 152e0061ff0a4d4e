/** Beyond this count, sorting is faster than insertion. */
const MANY = 128;

/** Indexes of the `count` largest of n numbers, largest first, ties by lower index; all n if there are no more. */
export function likeliest(values: ArrayLike<number>, offset: number, n: number, count: number): Int32Array {
  const wanted = Math.min(count, n);
  const places = new Int32Array(wanted);
  if (wanted === 0) return places;
  if (wanted > MANY)
    return Int32Array.from({ length: n }, (_, i) => i)
      .toSorted((a, b) => values[offset + b]! - values[offset + a]! || a - b)
      .subarray(0, wanted);
  const best = new Float64Array(wanted);
  let filled = 0;
  for (let i = 0; i < n; i++) {
    const value = values[offset + i]!;
    if (filled === wanted && !(value > best[filled - 1]!)) continue;
    let at = filled < wanted ? filled++ : filled - 1;
    for (; at > 0 && value > best[at - 1]!; at--) {
      best[at] = best[at - 1]!;
      places[at] = places[at - 1]!;
    }
    best[at] = value;
    places[at] = i;
  }
  return places;
}
