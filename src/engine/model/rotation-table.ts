/**
 * The rotations of rotary position embedding. Frequencies and angles are rounded to float32 as in transformers, so that distant positions, where the last bit of an
 * angle weighs more than that of a cosine, agree as well as near ones.
 */

/** Fills `[positions][headDim]`: cosines of the headDim / 2 frequencies, then sines. */
export function fillRotations(table: Float32Array, { headDim, ropeTheta }: { readonly headDim: number; readonly ropeTheta: number }): void {
  const half = headDim / 2;
  const frequencies = Array.from({ length: half }, (_, i) => Math.fround(1 / Math.fround(ropeTheta ** Math.fround((2 * i) / headDim))));
  for (let at = 0, position = 0; at < table.length; at += headDim, position++) {
    for (let i = 0; i < half; i++) {
      const angle = Math.fround(position * frequencies[i]!);
      table[at + i] = Math.cos(angle);
      table[at + half + i] = Math.sin(angle);
    }
  }
}
