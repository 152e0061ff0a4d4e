/** What every kernel is written in: four float32 lanes at a time. Addresses are bytes, counts are float32 numbers. */

/** a · b + c: one rounding where the build has the fused instruction, two where it has not. Every sum of products goes through it, so that all tile shapes round alike. */
@inline
export function multiplyAdd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

/**
 * Rows of the largest register tile. The fused instruction needs 15 vector registers for 6 rows, which is what V8 has on x64; multiplying and adding apart
 * needs one more, and is half again as fast with 4 rows as with 6 that spill.
 */
export const TILE_ROWS: i32 = ASC_FEATURE_RELAXED_SIMD ? 6 : 4;

/** The address of the `index`-th float. */
@inline
export function at(pointer: usize, index: i32): usize {
  return pointer + (<usize>index << 2);
}

@inline
export function bytesOf(floats: i32): usize {
  return <usize>floats << 2;
}

@inline
export function zero(): v128 {
  return f32x4.splat(0);
}

/** Always in the order of lanes. */
@inline
export function sumOfLanes(v: v128): f32 {
  return f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) + f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3);
}

/** The larger of each two lanes; a NaN in `next` is passed over. Where it matters, the exponential of what was shifted by the maximum shows it. */
@inline
export function larger(sofar: v128, next: v128): v128 {
  return f32x4.pmax(sofar, next);
}

/** Of lanes without a NaN. */
@inline
export function maxOfLanes(v: v128): f32 {
  const pairs = larger(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(larger(pairs, v128.shuffle<f32>(pairs, pairs, 1, 0, 3, 2)), 0);
}

/** All bits in the lanes whose index, counted from `first`, is below `limit`. */
@inline
export function lanesBelow(first: i32, limit: i32): v128 {
  return i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(limit - first));
}

/** Below it e^x is 0 here: the result would be denormal. */
export const EXP_FLOOR: f32 = -87.3;
const EXP_CEILING: f32 = 88.3;

/** Added to a number below 2^22 and taken away again, it rounds to an integer; the sum's lowest bits are that integer. */
const ROUNDING: f32 = 12582912;

/**
 * e^x to about 2e-7 relative (the polynomial of Cephes' expf on [-ln 2 / 2, ln 2 / 2], scaled by a power of two). 0 below -87.3, so that -Infinity gives 0;
 * from 88.3 on constant. NaN stays NaN: pmin and pmax, one instruction each where min and max take many, give their first operand where a comparison fails.
 */
@inline
export function exponential(x: v128): v128 {
  const bounded = f32x4.pmax(f32x4.pmin(x, f32x4.splat(EXP_CEILING)), f32x4.splat(EXP_FLOOR));
  const shifted = multiplyAdd(bounded, f32x4.splat(1.44269504088896341), f32x4.splat(ROUNDING));
  const power = f32x4.sub(shifted, f32x4.splat(ROUNDING));
  // ln 2 in two parts: the first has so few bits that its product with `power` is exact.
  let rest = multiplyAdd(power, f32x4.splat(-0.693359375), bounded);
  rest = multiplyAdd(power, f32x4.splat(2.12194440e-4), rest);
  let y = multiplyAdd(f32x4.splat(1.9875691500e-4), rest, f32x4.splat(1.3981999507e-3));
  y = multiplyAdd(y, rest, f32x4.splat(8.3334519073e-3));
  y = multiplyAdd(y, rest, f32x4.splat(4.1665795894e-2));
  y = multiplyAdd(y, rest, f32x4.splat(1.6666665459e-1));
  y = multiplyAdd(y, rest, f32x4.splat(5.0000001201e-1));
  y = multiplyAdd(y, f32x4.mul(rest, rest), f32x4.add(rest, f32x4.splat(1)));
  const scale = i32x4.add(i32x4.shl(shifted, 23), i32x4.splat(127 << 23));
  return v128.andnot(f32x4.mul(y, scale), f32x4.lt(x, f32x4.splat(EXP_FLOOR)));
}
