/** Operations on four float32 lanes, used by every kernel. Addresses are in bytes, counts in float32 numbers. */

/** a · b + c, rounded once in the build with the fused instruction, else twice. Every sum of products uses it, so that all tile shapes round alike. */
@inline
export function multiplyAdd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

/**
 * Rows of the largest register tile. With the fused instruction 6 rows need 15 vector registers, which is what V8 has on x64. A separate multiply and add need one
 * more; there 4 rows are 1.5 times as fast as 6, which spill.
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

/** Sums in lane order. */
@inline
export function sumOfLanes(v: v128): f32 {
  return f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) + f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3);
}

/** The larger of each pair of lanes; ignores a NaN in `next`. Such a NaN still shows in the exponential of the shifted values. */
@inline
export function larger(sofar: v128, next: v128): v128 {
  return f32x4.pmax(sofar, next);
}

/** The largest of four lanes, none of them NaN. */
@inline
export function maxOfLanes(v: v128): f32 {
  const pairs = larger(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(larger(pairs, v128.shuffle<f32>(pairs, pairs, 1, 0, 3, 2)), 0);
}

/** Sets all bits in lanes whose index, counted from `first`, is below `limit`. */
@inline
export function lanesBelow(first: i32, limit: i32): v128 {
  return i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(limit - first));
}

/**
 * The constants of `exponential`, in memory because V8 builds a vector constant with four instructions at each use, but loads one with a single instruction.
 * In order: bounds; 1 / ln 2; a number that rounds a small number to an integer, in the lowest bits of their sum, and is then subtracted again; ln 2 in two parts, the
 * first so short that its product with an integer is exact; the polynomial of Cephes' expf, highest power first.
 */
const CONSTANTS = memory.data<f32>([
  88.3, -87.3, 1.44269504088896341, 12582912, -0.693359375, 2.12194440e-4,
  1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1,
]);
const CEILING = 0, FLOOR = 1, LOG2_E = 2, ROUNDING = 3, LN2_HIGH = 4, LN2_LOW = 5, POLYNOMIAL = 6, ONE = 12;

@inline
function constant(index: i32): v128 {
  return v128.load32_splat(at(CONSTANTS, index));
}

/**
 * e^x with a relative error of about 2e-7: a polynomial on [-ln 2 / 2, ln 2 / 2] scaled by a power of two. It is 0 below -87.3, so that -Infinity gives 0, and constant
 * from 88.3 on. NaN stays NaN: pmin and pmax return their first operand if a comparison fails. They take one instruction each, min and max take many.
 */
@inline
export function exponential(x: v128): v128 {
  const bounded = f32x4.pmax(f32x4.pmin(x, constant(CEILING)), constant(FLOOR));
  const shifted = multiplyAdd(bounded, constant(LOG2_E), constant(ROUNDING));
  const power = f32x4.sub(shifted, constant(ROUNDING));
  let rest = multiplyAdd(power, constant(LN2_HIGH), bounded);
  rest = multiplyAdd(power, constant(LN2_LOW), rest);
  let y = multiplyAdd(constant(POLYNOMIAL), rest, constant(POLYNOMIAL + 1));
  y = multiplyAdd(y, rest, constant(POLYNOMIAL + 2));
  y = multiplyAdd(y, rest, constant(POLYNOMIAL + 3));
  y = multiplyAdd(y, rest, constant(POLYNOMIAL + 4));
  y = multiplyAdd(y, rest, constant(POLYNOMIAL + 5));
  y = multiplyAdd(y, f32x4.mul(rest, rest), f32x4.add(rest, constant(ONE)));
  // The bits of 2^power are those of 1 with power added to the exponent.
  const scale = i32x4.add(i32x4.shl(shifted, 23), constant(ONE));
  return v128.andnot(f32x4.mul(y, scale), isImpossible(x));
}

/** Sets all bits in lanes whose `exponential` is 0 because it would be denormal. NaN is not among them. */
@inline
export function isImpossible(x: v128): v128 {
  return f32x4.lt(x, constant(FLOOR));
}
