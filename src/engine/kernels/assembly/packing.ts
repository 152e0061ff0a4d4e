/** Matrices between rows and panels of 8 columns. */
import { at, zero } from './vector';

export function pack(b: usize, ldb: i32, packed: usize, k: i32, n: i32, transposed: i32): void {
  for (let column = 0; column < n; column += 8) {
    const panel = at(packed, column * k);
    const width = min(8, n - column);
    for (let lane = 0; lane < 8; lane++) {
      let to = at(panel, lane);
      if (lane >= width) {
        for (let i = 0; i < k; i++, to += 32) store<f32>(to, 0);
        continue;
      }
      let from = at(b, transposed ? (column + lane) * ldb : column + lane);
      const step = transposed ? 4 : <usize>ldb << 2;
      for (let i = 0; i < k; i++, to += 32, from += step) store<f32>(to, load<f32>(from));
    }
  }
}

export function unpackRows(packed: usize, k: i32, n0: i32, n: i32, rows: usize, ldRows: i32): void {
  for (let row = 0; row < n; row++) copyRow(packed, k, n0 + row, at(rows, row * ldRows));
}

export function gatherRows(packed: usize, d: i32, ids: usize, out: usize, ldOut: i32, m: i32): void {
  for (let row = 0; row < m; row++) copyRow(packed, d, load<i32>(at(ids, row)), at(out, row * ldOut));
}

/** Row `index` of a packed `[N, K]` weight. */
function copyRow(packed: usize, k: i32, index: i32, to: usize): void {
  let from = at(packed, (index >> 3) * 8 * k + (index & 7));
  for (let i = 0; i < k; i++, from += 32, to += 4) store<f32>(to, load<f32>(from));
}

export function repackTransposed(packed: usize, k: i32, n0: i32, n: i32, out: usize): void {
  const n8 = (n + 7) & ~7;
  for (let row = 0; row < n8; row += 8) {
    const from = at(packed, (n0 + row) * k);
    for (let input = 0; input < k; input += 8) {
      const to = at(out, input * n8 + row * 8);
      transposeSquare(at(from, input * 8), to);
      for (let beyond = max(0, n - row); beyond < 8; beyond++) {
        v128.store(at(to, beyond * 8), zero());
        v128.store(at(to, beyond * 8), zero(), 16);
      }
    }
  }
}

/** 8 × 8 contiguous floats. */
export function transposeSquare(from: usize, to: usize): void {
  transposeQuarter(from, to);
  transposeQuarter(from + 16, to + 128);
  transposeQuarter(from + 128, to + 16);
  transposeQuarter(from + 144, to + 144);
}

/** 4 × 4 floats, 8 between rows. */
function transposeQuarter(from: usize, to: usize): void {
  const a = v128.load(from), b = v128.load(from, 32), c = v128.load(from, 64), d = v128.load(from, 96);
  const ac0 = v128.shuffle<f32>(a, c, 0, 4, 1, 5), ac1 = v128.shuffle<f32>(a, c, 2, 6, 3, 7);
  const bd0 = v128.shuffle<f32>(b, d, 0, 4, 1, 5), bd1 = v128.shuffle<f32>(b, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<f32>(ac0, bd0, 0, 4, 1, 5));
  v128.store(to, v128.shuffle<f32>(ac0, bd0, 2, 6, 3, 7), 32);
  v128.store(to, v128.shuffle<f32>(ac1, bd1, 0, 4, 1, 5), 64);
  v128.store(to, v128.shuffle<f32>(ac1, bd1, 2, 6, 3, 7), 96);
}
