/** Cache blocks of 16 positions: a layer's keys and values, and their gradients. */
import { at } from './vector';

/** The address of the block that holds `position`. */
@inline
export function blockOf(cache: usize, blockBytes: i32, table: usize, position: i32): usize {
  return cache + <usize>load<i32>(at(table, position >> 4)) * <usize>blockBytes;
}

export function writeCache(
  k: usize, ldk: i32, v: usize, ldv: i32, m: i32, past: i32, kvHeads: i32, d: i32, cache: usize, blockBytes: i32, table: usize,
): void {
  for (let row = 0; row < m; row++) {
    const slot = (past + row) & 15;
    const keys = blockOf(cache, blockBytes, table, past + row);
    const values = at(keys, kvHeads * d * 16);
    for (let head = 0; head < kvHeads; head++) {
      writeKey(at(k, row * ldk + head * d), at(keys, head * d * 16 + (slot >> 3) * d * 8 + (slot & 7)), d);
      writeValue(at(v, row * ldv + head * d), at(values, head * d * 16 + slot * 8), d);
    }
  }
}

@inline
function writeKey(from: usize, to: usize, d: i32): void {
  for (let i = 0; i < d; i++, from += 4, to += 32) store<f32>(to, load<f32>(from));
}

@inline
function writeValue(from: usize, to: usize, d: i32): void {
  for (let i = 0; i < d; i += 8, from += 32, to += 512) {
    v128.store(to, v128.load(from));
    v128.store(to, v128.load(from, 16), 16);
  }
}

export function readGradientCache(
  dk: usize, lddk: i32, dv: usize, lddv: i32, m: i32, past: i32, kvHeads: i32, d: i32, gradientCache: usize, gradientBlockBytes: i32, table: usize,
): void {
  for (let row = 0; row < m; row++) {
    const slot = (past + row) & 15;
    const keys = blockOf(gradientCache, gradientBlockBytes, table, past + row);
    const values = at(keys, kvHeads * d * 16);
    for (let head = 0; head < kvHeads; head++) {
      const from = (head * 16 + slot) * d;
      memory.copy(at(dk, row * lddk + head * d), at(keys, from), <usize>d << 2);
      memory.copy(at(dv, row * lddv + head * d), at(values, from), <usize>d << 2);
    }
  }
}
