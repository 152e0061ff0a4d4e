/** Chooses a token from a row. Here n need not be a multiple of 4. */
import { at, exponential, larger, maxOfLanes } from './vector';

export function pick(logProbs: usize, n: i32, u: f64): i32 {
  let cumulative: f64 = 0;
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const p = exponential(v128.load(at(logProbs, i)));
    cumulative += <f64>f32x4.extract_lane(p, 0);
    if (cumulative > u) return i;
    cumulative += <f64>f32x4.extract_lane(p, 1);
    if (cumulative > u) return i + 1;
    cumulative += <f64>f32x4.extract_lane(p, 2);
    if (cumulative > u) return i + 2;
    cumulative += <f64>f32x4.extract_lane(p, 3);
    if (cumulative > u) return i + 3;
  }
  for (; i < n; i++) {
    cumulative += <f64>f32x4.extract_lane(exponential(v128.load32_splat(at(logProbs, i))), 0);
    if (cumulative > u) return i;
  }
  return -1;
}

export function argmax(x: usize, n: i32): i32 {
  let largest = f32x4.splat(-Infinity), isNan = i32x4.splat(0);
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const v = v128.load(at(x, i));
    largest = larger(largest, v);
    isNan = v128.or(isNan, f32x4.ne(v, v));
  }
  for (; i < n; i++) {
    const v = v128.load32_splat(at(x, i));
    largest = larger(largest, v);
    isNan = v128.or(isNan, f32x4.ne(v, v));
  }
  if (v128.any_true(isNan)) return -1;
  const wanted = maxOfLanes(largest);
  for (i = 0; i < n; i++) if (load<f32>(at(x, i)) == wanted) return i;
  return -1;
}

export function countAbove(x: usize, n: i32, value: f32): i32 {
  const bound = f32x4.splat(value);
  let count = 0;
  let i = 0;
  for (; i + 4 <= n; i += 4) count += popcnt(i32x4.bitmask(f32x4.gt(v128.load(at(x, i)), bound)));
  for (; i < n; i++) if (load<f32>(at(x, i)) > value) count++;
  return count;
}
