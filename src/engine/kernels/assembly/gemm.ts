/** C = A · B for a packed B. Pieces over k and blocks of rows keep a panel and the rows of A in the caches. Blocks of rows do not change the bits of C. */
import { narrowTile1, tile1, tile2, tile4, tile6 } from './gemm-tiles';
import { at, bytesOf, TILE_ROWS } from './vector';
import { bf16, weightAt } from './weights';

/** Products per partial sum. A sum of partial sums has much smaller rounding errors than one long sum. Affects the bits of C. */
const K_BLOCK = 64;
const ROW_BLOCK = 96;
/** Up to this many rows the product is limited by reading the weights from memory. */
const FEW_ROWS = 48;
/** Columns of one single-row tile. */
const STRIP = 32;

export function gemm(
  a: usize, lda: i32, packedB: usize, panelStride: i32, c: usize, ldc: i32, m: i32, n: i32, k: i32, accumulate: i32,
): void {
  multiply<f32>(a, lda, packedB, panelStride, c, ldc, m, n, k, accumulate);
}

/** For few rows it reads the weights in strips, each from start to end: twice as fast as reading a piece of every panel in turn, with the same bits. */
export function gemmBfloat16(
  a: usize, lda: i32, packedB: usize, panelStride: i32, c: usize, ldc: i32, m: i32, n: i32, k: i32, accumulate: i32,
): void {
  const width = m <= FEW_ROWS ? STRIP : n;
  for (let column = 0; column < n; column += width) {
    const strip = weightAt<bf16>(packedB, (column >> 3) * panelStride);
    multiply<bf16>(a, lda, strip, panelStride, at(c, column), ldc, m, min(width, n - column), k, accumulate);
  }
}

function multiply<W>(
  a: usize, lda: i32, packedB: usize, panelStride: i32, c: usize, ldc: i32, m: i32, n: i32, k: i32, accumulate: i32,
): void {
  let from = 0;
  do {
    const length = min(K_BLOCK, k - from);
    const sumsGoOn = accumulate || from > 0 ? 1 : 0;
    for (let row = 0; row < m; row += ROW_BLOCK) {
      const rows = min(ROW_BLOCK, m - row);
      multiplyRows<W>(
        at(a, row * lda + from), bytesOf(lda), weightAt<W>(packedB, from * 8), weightAt<W>(0, panelStride), at(c, row * ldc), bytesOf(ldc),
        rows, n, length, sumsGoOn,
      );
    }
    from += K_BLOCK;
  } while (from < k);
}

/** Strides are in bytes. */
export function multiplyRows<W>(
  a: usize, lda: usize, b: usize, panel: usize, c: usize, ldc: usize, m: i32, n: i32, k: i32, accumulate: i32,
): void {
  const whole = m - m % TILE_ROWS;
  // Of 4 or 5 remaining rows, 4 form a tile. (If TILE_ROWS is 4, fewer than 4 remain.)
  const tiled = m - whole >= 4 ? whole + 4 : whole;
  if (tiled > 0) {
    for (let column = 0; column < n; column += 8) {
      const right = b + <usize>(column >> 3) * panel;
      let left = a, to = at(c, column);
      for (let row = 0; row < whole; row += TILE_ROWS) {
        if (TILE_ROWS == 6) tile6<W>(left, lda, right, to, ldc, k, accumulate);
        else tile4<W>(left, lda, right, to, ldc, k, accumulate);
        left += <usize>TILE_ROWS * lda, to += <usize>TILE_ROWS * ldc;
      }
      if (tiled > whole) tile4<W>(left, lda, right, to, ldc, k, accumulate);
    }
  }
  const rest = m - tiled;
  a += <usize>tiled * lda, c += <usize>tiled * ldc;
  if (rest >= 2) {
    multiplyTwoRows<W>(a, lda, b, panel, c, ldc, n, k, accumulate);
    a += 2 * lda, c += 2 * ldc;
  }
  if (rest & 1) multiplyRow<W>(a, b, panel, c, n, k, accumulate);
}

function multiplyTwoRows<W>(a: usize, lda: usize, b: usize, panel: usize, c: usize, ldc: usize, n: i32, k: i32, accumulate: i32): void {
  let column = 0;
  for (; column + 16 <= n; column += 16, b += 2 * panel) tile2<W>(a, lda, b, panel, at(c, column), ldc, k, accumulate);
  if (column < n) {
    narrowTile1<W>(a, b, at(c, column), k, accumulate);
    narrowTile1<W>(a + lda, b, at(c, column) + ldc, k, accumulate);
  }
}

function multiplyRow<W>(a: usize, b: usize, panel: usize, c: usize, n: i32, k: i32, accumulate: i32): void {
  let column = 0;
  for (; column + 32 <= n; column += 32, b += 4 * panel) tile1<W>(a, b, b + 2 * panel, panel, at(c, column), k, accumulate);
  for (; column < n; column += 8, b += panel) narrowTile1<W>(a, b, at(c, column), k, accumulate);
}
