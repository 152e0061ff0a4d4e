/** Rotary positions, the gated activation, and sums of two arrays. */
import { at, exponential, multiplyAdd } from './vector';

export function rotate(x: usize, ldx: i32, m: i32, heads: i32, d: i32, table: usize, positions: usize, direction: i32, scale: f32): void {
  for (let row = 0; row < m; row++) {
    const angles = at(table, load<i32>(at(positions, row)) * d);
    for (let head = 0; head < heads; head++) rotateVector(at(x, row * ldx + head * d), d >> 1, angles, scale, <f32>direction * scale);
  }
}

@inline
function rotateVector(x: usize, half: i32, angles: usize, scale: f32, signedScale: f32): void {
  for (let i = 0; i < half; i += 4) {
    const p = at(x, i), q = at(p, half);
    const cosine = f32x4.mul(f32x4.splat(scale), v128.load(at(angles, i)));
    const sine = f32x4.mul(f32x4.splat(signedScale), v128.load(at(angles, i + half)));
    const first = v128.load(p), second = v128.load(q);
    v128.store(p, f32x4.sub(f32x4.mul(first, cosine), f32x4.mul(second, sine)));
    v128.store(q, multiplyAdd(second, cosine, f32x4.mul(first, sine)));
  }
}

@inline
function sigmoid(x: v128): v128 {
  return f32x4.div(f32x4.splat(1), f32x4.add(f32x4.splat(1), exponential(f32x4.neg(x))));
}

export function siluMultiply(gate: usize, ldg: i32, up: usize, ldu: i32, out: usize, ldo: i32, m: i32, n: i32): void {
  for (let row = 0; row < m; row++) {
    const g = at(gate, row * ldg), u = at(up, row * ldu), o = at(out, row * ldo);
    for (let i = 0; i < n; i += 4) {
      const x = v128.load(at(g, i));
      v128.store(at(o, i), f32x4.mul(f32x4.mul(x, sigmoid(x)), v128.load(at(u, i))));
    }
  }
}

export function siluMultiplyBackward(gate: usize, ldg: i32, up: usize, ldu: i32, dOut: usize, ldo: i32, m: i32, n: i32): void {
  const one = f32x4.splat(1);
  for (let row = 0; row < m; row++) {
    const g = at(gate, row * ldg), u = at(up, row * ldu), o = at(dOut, row * ldo);
    for (let i = 0; i < n; i += 4) {
      const x = v128.load(at(g, i)), gradient = v128.load(at(o, i));
      const s = sigmoid(x);
      const silu = f32x4.mul(x, s);
      const slope = multiplyAdd(silu, f32x4.sub(one, s), s);
      v128.store(at(g, i), f32x4.mul(f32x4.mul(gradient, v128.load(at(u, i))), slope));
      v128.store(at(u, i), f32x4.mul(gradient, silu));
    }
  }
}

export function addTo(a: usize, b: usize, n: i32): void {
  for (let i = 0; i < n; i += 4) v128.store(at(a, i), f32x4.add(v128.load(at(a, i)), v128.load(at(b, i))));
}
