/** Converts matrices between rows and panels of 8 columns. */
import { at, zero } from './vector';
import { bf16, lower, narrow, weightAt, widened } from './weights';

export function pack(b: usize, ldb: i32, packed: usize, k: i32, n: i32, transposed: i32): void {
  packAs<f32>(b, ldb, packed, k, n, transposed);
}

export function packBfloat16(b: usize, ldb: i32, packed: usize, k: i32, n: i32, transposed: i32): void {
  packAs<bf16>(b, ldb, packed, k, n, transposed);
}

function packAs<W>(b: usize, ldb: i32, packed: usize, k: i32, n: i32, transposed: i32): void {
  for (let column = 0; column < n; column += 8) {
    const panel = weightAt<W>(packed, column * k);
    const width = min(8, n - column);
    for (let lane = 0; lane < 8; lane++) {
      let to = weightAt<W>(panel, lane);
      if (lane >= width) {
        for (let i = 0; i < k; i++, to += 8 * sizeof<W>()) narrow<W>(to, 0);
        continue;
      }
      let from = at(b, transposed ? (column + lane) * ldb : column + lane);
      const step = transposed ? 4 : <usize>ldb << 2;
      for (let i = 0; i < k; i++, to += 8 * sizeof<W>(), from += step) narrow<W>(to, load<f32>(from));
    }
  }
}

export function unpackRows(packed: usize, k: i32, n0: i32, n: i32, rows: usize, ldRows: i32): void {
  for (let row = 0; row < n; row++) copyRow<f32>(packed, k, n0 + row, at(rows, row * ldRows));
}

export function gatherRows(packed: usize, d: i32, ids: usize, out: usize, ldOut: i32, m: i32): void {
  for (let row = 0; row < m; row++) copyRow<f32>(packed, d, load<i32>(at(ids, row)), at(out, row * ldOut));
}

export function gatherRowsBfloat16(packed: usize, d: i32, ids: usize, out: usize, ldOut: i32, m: i32): void {
  for (let row = 0; row < m; row++) copyRow<bf16>(packed, d, load<i32>(at(ids, row)), at(out, row * ldOut));
}

/** Copies row `index` of a packed `[N, K]` weight. */
function copyRow<W>(packed: usize, k: i32, index: i32, to: usize): void {
  let from = weightAt<W>(packed, (index >> 3) * 8 * k + (index & 7));
  for (let i = 0; i < k; i++, from += 8 * sizeof<W>(), to += 4) store<f32>(to, widened<W>(from));
}

export function repackTransposed(packed: usize, k: i32, n0: i32, n: i32, out: usize): void {
  repack<f32>(packed, k, n0, n, out);
}

export function repackTransposedBfloat16(packed: usize, k: i32, n0: i32, n: i32, out: usize): void {
  repack<bf16>(packed, k, n0, n, out);
}

function repack<W>(packed: usize, k: i32, n0: i32, n: i32, out: usize): void {
  const n8 = (n + 7) & ~7;
  for (let row = 0; row < n8; row += 8) {
    const from = weightAt<W>(packed, (n0 + row) * k);
    for (let input = 0; input < k; input += 8) {
      const to = at(out, input * n8 + row * 8);
      transposeSquare<W>(weightAt<W>(from, input * 8), to);
      for (let beyond = max(0, n - row); beyond < 8; beyond++) {
        v128.store(at(to, beyond * 8), zero());
        v128.store(at(to, beyond * 8), zero(), 16);
      }
    }
  }
}

/** Transposes 8 × 8 contiguous weights to floats. */
export function transposeSquare<W>(from: usize, to: usize): void {
  transposeQuarter<W>(from, to);
  transposeQuarter<W>(from + 4 * sizeof<W>(), to + 128);
  transposeQuarter<W>(from + 32 * sizeof<W>(), to + 16);
  transposeQuarter<W>(from + 36 * sizeof<W>(), to + 144);
}

/** Transposes 4 × 4 weights with a row stride of 8. */
function transposeQuarter<W>(from: usize, to: usize): void {
  const a = lower<W>(from);
  let b: v128, c: v128, d: v128;
  if (isFloat<W>()) b = v128.load(from, 32), c = v128.load(from, 64), d = v128.load(from, 96);
  else b = lower<W>(from + 16), c = lower<W>(from + 32), d = lower<W>(from + 48);
  const ac0 = v128.shuffle<f32>(a, c, 0, 4, 1, 5), ac1 = v128.shuffle<f32>(a, c, 2, 6, 3, 7);
  const bd0 = v128.shuffle<f32>(b, d, 0, 4, 1, 5), bd1 = v128.shuffle<f32>(b, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<f32>(ac0, bd0, 0, 4, 1, 5));
  v128.store(to, v128.shuffle<f32>(ac0, bd0, 2, 6, 3, 7), 32);
  v128.store(to, v128.shuffle<f32>(ac1, bd1, 0, 4, 1, 5), 64);
  v128.store(to, v128.shuffle<f32>(ac1, bd1, 2, 6, 3, 7), 96);
}
