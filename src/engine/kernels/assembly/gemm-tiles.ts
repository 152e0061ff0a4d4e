/**
 * Register tiles: R rows of A times panels of 8 columns. Each number of C sums over k in ascending order, one product at a time, so that every tile gives the same
 * bits. V8 has 15 vector registers on x64: 6 × 8 takes 12 for sums, 2 for B and 1 for A. Strides are in bytes; `b` is [k][8], further panels are `panel` bytes apart.
 */
import { multiplyAdd, zero } from './vector';
import { lower, upper, weightAt } from './weights';

/** C[6, 8] */
export function tile6<W>(a: usize, lda: usize, b: usize, c: usize, ldc: usize, k: i32, accumulate: i32): void {
  let c00 = zero(), c01 = zero(), c10 = zero(), c11 = zero(), c20 = zero(), c21 = zero();
  let c30 = zero(), c31 = zero(), c40 = zero(), c41 = zero(), c50 = zero(), c51 = zero();
  let a1 = a + lda, a2 = a1 + lda, a3 = a2 + lda, a4 = a3 + lda, a5 = a4 + lda;
  const end = weightAt<W>(b, 8 * k);
  for (; b < end; b += 8 * sizeof<W>()) {
    const b0 = lower<W>(b), b1 = upper<W>(b);
    let s = v128.load32_splat(a);
    c00 = multiplyAdd(s, b0, c00), c01 = multiplyAdd(s, b1, c01), s = v128.load32_splat(a1);
    c10 = multiplyAdd(s, b0, c10), c11 = multiplyAdd(s, b1, c11), s = v128.load32_splat(a2);
    c20 = multiplyAdd(s, b0, c20), c21 = multiplyAdd(s, b1, c21), s = v128.load32_splat(a3);
    c30 = multiplyAdd(s, b0, c30), c31 = multiplyAdd(s, b1, c31), s = v128.load32_splat(a4);
    c40 = multiplyAdd(s, b0, c40), c41 = multiplyAdd(s, b1, c41), s = v128.load32_splat(a5);
    c50 = multiplyAdd(s, b0, c50), c51 = multiplyAdd(s, b1, c51);
    a += 4, a1 += 4, a2 += 4, a3 += 4, a4 += 4, a5 += 4;
  }
  if (accumulate) {
    let row = c;
    c00 = f32x4.add(v128.load(row), c00), c01 = f32x4.add(v128.load(row, 16), c01), row += ldc;
    c10 = f32x4.add(v128.load(row), c10), c11 = f32x4.add(v128.load(row, 16), c11), row += ldc;
    c20 = f32x4.add(v128.load(row), c20), c21 = f32x4.add(v128.load(row, 16), c21), row += ldc;
    c30 = f32x4.add(v128.load(row), c30), c31 = f32x4.add(v128.load(row, 16), c31), row += ldc;
    c40 = f32x4.add(v128.load(row), c40), c41 = f32x4.add(v128.load(row, 16), c41), row += ldc;
    c50 = f32x4.add(v128.load(row), c50), c51 = f32x4.add(v128.load(row, 16), c51);
  }
  v128.store(c, c00), v128.store(c, c01, 16), c += ldc;
  v128.store(c, c10), v128.store(c, c11, 16), c += ldc;
  v128.store(c, c20), v128.store(c, c21, 16), c += ldc;
  v128.store(c, c30), v128.store(c, c31, 16), c += ldc;
  v128.store(c, c40), v128.store(c, c41, 16), c += ldc;
  v128.store(c, c50), v128.store(c, c51, 16);
}

/** C[4, 8] */
export function tile4<W>(a: usize, lda: usize, b: usize, c: usize, ldc: usize, k: i32, accumulate: i32): void {
  let c00 = zero(), c01 = zero(), c10 = zero(), c11 = zero(), c20 = zero(), c21 = zero(), c30 = zero(), c31 = zero();
  let a1 = a + lda, a2 = a1 + lda, a3 = a2 + lda;
  const end = weightAt<W>(b, 8 * k);
  for (; b < end; b += 8 * sizeof<W>()) {
    const b0 = lower<W>(b), b1 = upper<W>(b);
    let s = v128.load32_splat(a);
    c00 = multiplyAdd(s, b0, c00), c01 = multiplyAdd(s, b1, c01), s = v128.load32_splat(a1);
    c10 = multiplyAdd(s, b0, c10), c11 = multiplyAdd(s, b1, c11), s = v128.load32_splat(a2);
    c20 = multiplyAdd(s, b0, c20), c21 = multiplyAdd(s, b1, c21), s = v128.load32_splat(a3);
    c30 = multiplyAdd(s, b0, c30), c31 = multiplyAdd(s, b1, c31);
    a += 4, a1 += 4, a2 += 4, a3 += 4;
  }
  if (accumulate) {
    let row = c;
    c00 = f32x4.add(v128.load(row), c00), c01 = f32x4.add(v128.load(row, 16), c01), row += ldc;
    c10 = f32x4.add(v128.load(row), c10), c11 = f32x4.add(v128.load(row, 16), c11), row += ldc;
    c20 = f32x4.add(v128.load(row), c20), c21 = f32x4.add(v128.load(row, 16), c21), row += ldc;
    c30 = f32x4.add(v128.load(row), c30), c31 = f32x4.add(v128.load(row, 16), c31);
  }
  v128.store(c, c00), v128.store(c, c01, 16), c += ldc;
  v128.store(c, c10), v128.store(c, c11, 16), c += ldc;
  v128.store(c, c20), v128.store(c, c21, 16), c += ldc;
  v128.store(c, c30), v128.store(c, c31, 16);
}

/** C[2, 16] of two panels. With one panel the few sums would stall on their own latency. */
export function tile2<W>(a: usize, lda: usize, b: usize, panel: usize, c: usize, ldc: usize, k: i32, accumulate: i32): void {
  let c00 = zero(), c01 = zero(), c02 = zero(), c03 = zero(), c10 = zero(), c11 = zero(), c12 = zero(), c13 = zero();
  let a1 = a + lda, right = b + panel;
  const end = weightAt<W>(b, 8 * k);
  for (; b < end; b += 8 * sizeof<W>(), right += 8 * sizeof<W>()) {
    const b0 = lower<W>(b), b1 = upper<W>(b), b2 = lower<W>(right), b3 = upper<W>(right);
    const s0 = v128.load32_splat(a), s1 = v128.load32_splat(a1);
    c00 = multiplyAdd(s0, b0, c00), c01 = multiplyAdd(s0, b1, c01), c02 = multiplyAdd(s0, b2, c02), c03 = multiplyAdd(s0, b3, c03);
    c10 = multiplyAdd(s1, b0, c10), c11 = multiplyAdd(s1, b1, c11), c12 = multiplyAdd(s1, b2, c12), c13 = multiplyAdd(s1, b3, c13);
    a += 4, a1 += 4;
  }
  if (accumulate) {
    c00 = f32x4.add(v128.load(c), c00), c01 = f32x4.add(v128.load(c, 16), c01), c02 = f32x4.add(v128.load(c, 32), c02), c03 = f32x4.add(v128.load(c, 48), c03);
    const row = c + ldc;
    c10 = f32x4.add(v128.load(row), c10), c11 = f32x4.add(v128.load(row, 16), c11), c12 = f32x4.add(v128.load(row, 32), c12), c13 = f32x4.add(v128.load(row, 48), c13);
  }
  v128.store(c, c00), v128.store(c, c01, 16), v128.store(c, c02, 32), v128.store(c, c03, 48), c += ldc;
  v128.store(c, c10), v128.store(c, c11, 16), v128.store(c, c12, 32), v128.store(c, c13, 48);
}

/** C[1, 32] of four panels, two at `b` and two at `further`. */
export function tile1<W>(a: usize, b: usize, further: usize, panel: usize, c: usize, k: i32, accumulate: i32): void {
  let c0 = zero(), c1 = zero(), c2 = zero(), c3 = zero(), c4 = zero(), c5 = zero(), c6 = zero(), c7 = zero();
  let second = b + panel, fourth = further + panel;
  const end = weightAt<W>(b, 8 * k);
  for (; b < end; b += 8 * sizeof<W>(), second += 8 * sizeof<W>(), further += 8 * sizeof<W>(), fourth += 8 * sizeof<W>(), a += 4) {
    const s = v128.load32_splat(a);
    c0 = multiplyAdd(s, lower<W>(b), c0), c1 = multiplyAdd(s, upper<W>(b), c1);
    c2 = multiplyAdd(s, lower<W>(second), c2), c3 = multiplyAdd(s, upper<W>(second), c3);
    c4 = multiplyAdd(s, lower<W>(further), c4), c5 = multiplyAdd(s, upper<W>(further), c5);
    c6 = multiplyAdd(s, lower<W>(fourth), c6), c7 = multiplyAdd(s, upper<W>(fourth), c7);
  }
  if (accumulate) {
    c0 = f32x4.add(v128.load(c), c0), c1 = f32x4.add(v128.load(c, 16), c1), c2 = f32x4.add(v128.load(c, 32), c2), c3 = f32x4.add(v128.load(c, 48), c3);
    c4 = f32x4.add(v128.load(c, 64), c4), c5 = f32x4.add(v128.load(c, 80), c5), c6 = f32x4.add(v128.load(c, 96), c6), c7 = f32x4.add(v128.load(c, 112), c7);
  }
  v128.store(c, c0), v128.store(c, c1, 16), v128.store(c, c2, 32), v128.store(c, c3, 48);
  v128.store(c, c4, 64), v128.store(c, c5, 80), v128.store(c, c6, 96), v128.store(c, c7, 112);
}

/** C[1, 8] */
export function narrowTile1<W>(a: usize, b: usize, c: usize, k: i32, accumulate: i32): void {
  let c0 = zero(), c1 = zero();
  const end = weightAt<W>(b, 8 * k);
  for (; b < end; b += 8 * sizeof<W>(), a += 4) {
    const s = v128.load32_splat(a);
    c0 = multiplyAdd(s, lower<W>(b), c0), c1 = multiplyAdd(s, upper<W>(b), c1);
  }
  if (accumulate) c0 = f32x4.add(v128.load(c), c0), c1 = f32x4.add(v128.load(c, 16), c1);
  v128.store(c, c0), v128.store(c, c1, 16);
}
