/** Numbers that any language can make from a name, so that no tensor of a test has to be stored: as `numbers` of test/golden/producers/engine.py. */

/** Uniform in [-1, 1). */
export function hashNumbers(name: string, count: number): Float64Array {
  let seed = 2166136261;
  for (const byte of Buffer.from(name)) seed = Math.imul(seed ^ byte, 16777619);
  return Float64Array.from({ length: count }, (_, i) => {
    let h = (Math.imul(i, 0x9e3779b9) + seed) >>> 0;
    h = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
    h = Math.imul(h ^ (h >>> 15), 0xd35a2d97);
    return ((h ^ (h >>> 15)) >>> 0) / 2 ** 31 - 1;
  });
}
