/**
 * Register tiles of weights · values, like those of gemm, but a panel of values is split into scattered blocks of 16 positions, and the sums stay in registers from
 * block to block. They sum positions in ascending order. `values` is the address of the panel in block 0; strides are in bytes.
 */
import { blockOf } from './cache';
import { at, multiplyAdd, zero } from './vector';

/** out[6, 8] over positions [0, limit) */
export function values6(w: usize, ldw: usize, values: usize, blockBytes: i32, table: usize, limit: i32, out: usize, ldo: usize): void {
  let c00 = zero(), c01 = zero(), c10 = zero(), c11 = zero(), c20 = zero(), c21 = zero();
  let c30 = zero(), c31 = zero(), c40 = zero(), c41 = zero(), c50 = zero(), c51 = zero();
  let w1 = w + ldw, w2 = w1 + ldw, w3 = w2 + ldw, w4 = w3 + ldw, w5 = w4 + ldw;
  for (let position = 0; position < limit; position += 16) {
    let v = blockOf(values, blockBytes, table, position);
    const end = v + (<usize>min(16, limit - position) << 5);
    for (; v < end; v += 32) {
      const v0 = v128.load(v), v1 = v128.load(v, 16);
      let s = v128.load32_splat(w);
      c00 = multiplyAdd(s, v0, c00), c01 = multiplyAdd(s, v1, c01), s = v128.load32_splat(w1);
      c10 = multiplyAdd(s, v0, c10), c11 = multiplyAdd(s, v1, c11), s = v128.load32_splat(w2);
      c20 = multiplyAdd(s, v0, c20), c21 = multiplyAdd(s, v1, c21), s = v128.load32_splat(w3);
      c30 = multiplyAdd(s, v0, c30), c31 = multiplyAdd(s, v1, c31), s = v128.load32_splat(w4);
      c40 = multiplyAdd(s, v0, c40), c41 = multiplyAdd(s, v1, c41), s = v128.load32_splat(w5);
      c50 = multiplyAdd(s, v0, c50), c51 = multiplyAdd(s, v1, c51);
      w += 4, w1 += 4, w2 += 4, w3 += 4, w4 += 4, w5 += 4;
    }
  }
  v128.store(out, c00), v128.store(out, c01, 16), out += ldo;
  v128.store(out, c10), v128.store(out, c11, 16), out += ldo;
  v128.store(out, c20), v128.store(out, c21, 16), out += ldo;
  v128.store(out, c30), v128.store(out, c31, 16), out += ldo;
  v128.store(out, c40), v128.store(out, c41, 16), out += ldo;
  v128.store(out, c50), v128.store(out, c51, 16);
}

/** out[4, 8] over positions [0, limit) */
export function values4(w: usize, ldw: usize, values: usize, blockBytes: i32, table: usize, limit: i32, out: usize, ldo: usize): void {
  let c00 = zero(), c01 = zero(), c10 = zero(), c11 = zero(), c20 = zero(), c21 = zero(), c30 = zero(), c31 = zero();
  let w1 = w + ldw, w2 = w1 + ldw, w3 = w2 + ldw;
  for (let position = 0; position < limit; position += 16) {
    let v = blockOf(values, blockBytes, table, position);
    const end = v + (<usize>min(16, limit - position) << 5);
    for (; v < end; v += 32) {
      const v0 = v128.load(v), v1 = v128.load(v, 16);
      let s = v128.load32_splat(w);
      c00 = multiplyAdd(s, v0, c00), c01 = multiplyAdd(s, v1, c01), s = v128.load32_splat(w1);
      c10 = multiplyAdd(s, v0, c10), c11 = multiplyAdd(s, v1, c11), s = v128.load32_splat(w2);
      c20 = multiplyAdd(s, v0, c20), c21 = multiplyAdd(s, v1, c21), s = v128.load32_splat(w3);
      c30 = multiplyAdd(s, v0, c30), c31 = multiplyAdd(s, v1, c31);
      w += 4, w1 += 4, w2 += 4, w3 += 4;
    }
  }
  v128.store(out, c00), v128.store(out, c01, 16), out += ldo;
  v128.store(out, c10), v128.store(out, c11, 16), out += ldo;
  v128.store(out, c20), v128.store(out, c21, 16), out += ldo;
  v128.store(out, c30), v128.store(out, c31, 16);
}

/** out[2, 16] over positions [0, limit), two panels */
export function values2(w: usize, ldw: usize, values: usize, blockBytes: i32, table: usize, limit: i32, out: usize, ldo: usize): void {
  let c00 = zero(), c01 = zero(), c02 = zero(), c03 = zero(), c10 = zero(), c11 = zero(), c12 = zero(), c13 = zero();
  let w1 = w + ldw;
  for (let position = 0; position < limit; position += 16) {
    let v = blockOf(values, blockBytes, table, position);
    const end = v + (<usize>min(16, limit - position) << 5);
    for (; v < end; v += 32, w += 4, w1 += 4) {
      const v0 = v128.load(v), v1 = v128.load(v, 16), v2 = v128.load(v, 512), v3 = v128.load(v, 528);
      const s0 = v128.load32_splat(w), s1 = v128.load32_splat(w1);
      c00 = multiplyAdd(s0, v0, c00), c01 = multiplyAdd(s0, v1, c01), c02 = multiplyAdd(s0, v2, c02), c03 = multiplyAdd(s0, v3, c03);
      c10 = multiplyAdd(s1, v0, c10), c11 = multiplyAdd(s1, v1, c11), c12 = multiplyAdd(s1, v2, c12), c13 = multiplyAdd(s1, v3, c13);
    }
  }
  v128.store(out, c00), v128.store(out, c01, 16), v128.store(out, c02, 32), v128.store(out, c03, 48), out += ldo;
  v128.store(out, c10), v128.store(out, c11, 16), v128.store(out, c12, 32), v128.store(out, c13, 48);
}

/** out[1, 32], four panels: adds positions [first, limit); if first is 0, overwrites. */
export function values1(w: usize, values: usize, blockBytes: i32, table: usize, first: i32, limit: i32, out: usize): void {
  let c0 = zero(), c1 = zero(), c2 = zero(), c3 = zero(), c4 = zero(), c5 = zero(), c6 = zero(), c7 = zero();
  if (first) {
    c0 = v128.load(out), c1 = v128.load(out, 16), c2 = v128.load(out, 32), c3 = v128.load(out, 48);
    c4 = v128.load(out, 64), c5 = v128.load(out, 80), c6 = v128.load(out, 96), c7 = v128.load(out, 112);
  }
  w = at(w, first);
  for (let position = first; position < limit; ) {
    const slot = position & 15, next = min(limit, position - slot + 16);
    let v = blockOf(values, blockBytes, table, position) + (<usize>slot << 5);
    for (; position < next; position++, v += 32, w += 4) {
      const s = v128.load32_splat(w);
      c0 = multiplyAdd(s, v128.load(v), c0), c1 = multiplyAdd(s, v128.load(v, 16), c1);
      c2 = multiplyAdd(s, v128.load(v, 512), c2), c3 = multiplyAdd(s, v128.load(v, 528), c3);
      c4 = multiplyAdd(s, v128.load(v, 1024), c4), c5 = multiplyAdd(s, v128.load(v, 1040), c5);
      c6 = multiplyAdd(s, v128.load(v, 1536), c6), c7 = multiplyAdd(s, v128.load(v, 1552), c7);
    }
  }
  v128.store(out, c0), v128.store(out, c1, 16), v128.store(out, c2, 32), v128.store(out, c3, 48);
  v128.store(out, c4, 64), v128.store(out, c5, 80), v128.store(out, c6, 96), v128.store(out, c7, 112);
}

/** out[1, 8], one panel; like `values1`. */
export function narrowValues1(w: usize, values: usize, blockBytes: i32, table: usize, first: i32, limit: i32, out: usize): void {
  let c0 = zero(), c1 = zero();
  if (first) c0 = v128.load(out), c1 = v128.load(out, 16);
  w = at(w, first);
  for (let position = first; position < limit; position++, w += 4) {
    const v = blockOf(values, blockBytes, table, position) + (<usize>(position & 15) << 5);
    const s = v128.load32_splat(w);
    c0 = multiplyAdd(s, v128.load(v), c0), c1 = multiplyAdd(s, v128.load(v, 16), c1);
  }
  v128.store(out, c0), v128.store(out, c1, 16);
}
