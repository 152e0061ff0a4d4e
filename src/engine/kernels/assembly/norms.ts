/** RMS norms of whole rows and of the heads in a row. */
import { at, multiplyAdd, sumOfLanes, zero } from './vector';

export function rmsNorm(x: usize, ldx: i32, w: usize, y: usize, ldy: i32, inverse: usize, m: i32, d: i32, epsilon: f32): void {
  for (let row = 0; row < m; row++) {
    const factor = normalize(at(x, row * ldx), w, at(y, row * ldy), d, epsilon);
    if (inverse) store<f32>(at(inverse, row), factor);
  }
}

export function headNorm(x: usize, ldx: i32, w: usize, y: usize, ldy: i32, inverse: usize, m: i32, heads: i32, d: i32, epsilon: f32): void {
  for (let row = 0; row < m; row++) {
    for (let head = 0; head < heads; head++) {
      const factor = normalize(at(x, row * ldx + head * d), w, at(y, row * ldy + head * d), d, epsilon);
      if (inverse) store<f32>(at(inverse, row * heads + head), factor);
    }
  }
}

/** Normalizes one vector; returns 1 / rms. */
function normalize(x: usize, w: usize, y: usize, d: i32, epsilon: f32): f32 {
  let even = zero(), odd = zero();
  for (let i = 0; i < d; i += 8) {
    const a = v128.load(at(x, i)), b = v128.load(at(x, i), 16);
    even = multiplyAdd(a, a, even);
    odd = multiplyAdd(b, b, odd);
  }
  const sum = sumOfLanes(f32x4.add(even, odd));
  // A sum that overflowed would make every number 0 and every token as likely; times 0 it is NaN, which is an error by name.
  const factor: f32 = 1 / sqrt<f32>(sum / <f32>d + epsilon) + sum * 0;
  const factors = f32x4.splat(factor);
  for (let i = 0; i < d; i += 4) v128.store(at(y, i), f32x4.mul(f32x4.mul(v128.load(at(x, i)), factors), v128.load(at(w, i))));
  return factor;
}

export function rmsNormBackward(
  x: usize, ldx: i32, w: usize, inverse: usize, dy: usize, ldy: i32, dx: usize, lddx: i32, m: i32, d: i32, accumulate: i32,
): void {
  for (let row = 0; row < m; row++) {
    normalizeBackward(at(x, row * ldx), w, load<f32>(at(inverse, row)), at(dy, row * ldy), at(dx, row * lddx), d, accumulate);
  }
}

export function headNormBackward(
  x: usize, ldx: i32, w: usize, inverse: usize, dy: usize, ldy: i32, dx: usize, lddx: i32, m: i32, heads: i32, d: i32,
): void {
  for (let row = 0; row < m; row++) {
    for (let head = 0; head < heads; head++) {
      const offset = head * d;
      const factor = load<f32>(at(inverse, row * heads + head));
      normalizeBackward(at(x, row * ldx + offset), w, factor, at(dy, row * ldy + offset), at(dx, row * lddx + offset), d, 0);
    }
  }
}

/** dx = r · w · dy - x · r³ / d · sum(w · dy · x), r = 1 / rms. */
function normalizeBackward(x: usize, w: usize, factor: f32, dy: usize, dx: usize, d: i32, accumulate: i32): void {
  let even = zero(), odd = zero();
  for (let i = 0; i < d; i += 8) {
    even = multiplyAdd(f32x4.mul(v128.load(at(dy, i)), v128.load(at(w, i))), v128.load(at(x, i)), even);
    odd = multiplyAdd(f32x4.mul(v128.load(at(dy, i), 16), v128.load(at(w, i), 16)), v128.load(at(x, i), 16), odd);
  }
  const factors = f32x4.splat(factor);
  const along = f32x4.splat((-sumOfLanes(f32x4.add(even, odd)) * factor * factor * factor) / <f32>d);
  for (let i = 0; i < d; i += 4) {
    const across = f32x4.mul(factors, f32x4.mul(v128.load(at(dy, i)), v128.load(at(w, i))));
    let gradient = multiplyAdd(along, v128.load(at(x, i)), across);
    if (accumulate) gradient = f32x4.add(gradient, v128.load(at(dx, i)));
    v128.store(at(dx, i), gradient);
  }
}
