/** C += Aᵀ · B, both row-major: the gradient of a weight. Every tile starts from C and adds rows in ascending order. */
import { at, bytesOf, multiplyAdd, TILE_ROWS } from './vector';

/** 8 columns of this many rows of B stay in the L1 cache while all columns of A pass by. */
const ROW_BLOCK = 256;

export function gemmTransposed(a: usize, lda: i32, b: usize, ldb: i32, c: usize, ldc: i32, m: i32, i: i32, n: i32): void {
  for (let row = 0; row < m; row += ROW_BLOCK) {
    multiplyColumns(at(a, row * lda), bytesOf(lda), at(b, row * ldb), bytesOf(ldb), c, bytesOf(ldc), min(ROW_BLOCK, m - row), i, n);
  }
}

/** Strides are in bytes. */
export function multiplyColumns(a: usize, lda: usize, b: usize, ldb: usize, c: usize, ldc: usize, m: i32, i: i32, n: i32): void {
  for (let column = 0; column < n; column += 8, b += 32, c += 32) {
    let left = a, to = c, rest = i;
    // 8 is a common adapter rank, for which 4 + 4 is faster than 6 + 1 + 1.
    if (TILE_ROWS == 6) for (; rest >= 6 && rest != 8; rest -= 6, left += 24, to += 6 * ldc) columnTile6(left, lda, b, ldb, to, ldc, m);
    for (; rest >= 4; rest -= 4, left += 16, to += 4 * ldc) columnTile4(left, lda, b, ldb, to, ldc, m);
    for (; rest > 0; rest--, left += 4, to += ldc) columnTile1(left, lda, b, ldb, to, m);
  }
}

/** C[6, 8] */
function columnTile6(a: usize, lda: usize, b: usize, ldb: usize, c: usize, ldc: usize, m: i32): void {
  let row = c;
  let c00 = v128.load(row), c01 = v128.load(row, 16);
  row += ldc;
  let c10 = v128.load(row), c11 = v128.load(row, 16);
  row += ldc;
  let c20 = v128.load(row), c21 = v128.load(row, 16);
  row += ldc;
  let c30 = v128.load(row), c31 = v128.load(row, 16);
  row += ldc;
  let c40 = v128.load(row), c41 = v128.load(row, 16);
  row += ldc;
  let c50 = v128.load(row), c51 = v128.load(row, 16);
  for (; m > 0; m--, a += lda, b += ldb) {
    const b0 = v128.load(b), b1 = v128.load(b, 16);
    let s = v128.load32_splat(a);
    c00 = multiplyAdd(s, b0, c00), c01 = multiplyAdd(s, b1, c01), s = v128.load32_splat(a, 4);
    c10 = multiplyAdd(s, b0, c10), c11 = multiplyAdd(s, b1, c11), s = v128.load32_splat(a, 8);
    c20 = multiplyAdd(s, b0, c20), c21 = multiplyAdd(s, b1, c21), s = v128.load32_splat(a, 12);
    c30 = multiplyAdd(s, b0, c30), c31 = multiplyAdd(s, b1, c31), s = v128.load32_splat(a, 16);
    c40 = multiplyAdd(s, b0, c40), c41 = multiplyAdd(s, b1, c41), s = v128.load32_splat(a, 20);
    c50 = multiplyAdd(s, b0, c50), c51 = multiplyAdd(s, b1, c51);
  }
  v128.store(c, c00), v128.store(c, c01, 16), c += ldc;
  v128.store(c, c10), v128.store(c, c11, 16), c += ldc;
  v128.store(c, c20), v128.store(c, c21, 16), c += ldc;
  v128.store(c, c30), v128.store(c, c31, 16), c += ldc;
  v128.store(c, c40), v128.store(c, c41, 16), c += ldc;
  v128.store(c, c50), v128.store(c, c51, 16);
}

/** C[4, 8] */
function columnTile4(a: usize, lda: usize, b: usize, ldb: usize, c: usize, ldc: usize, m: i32): void {
  let row = c;
  let c00 = v128.load(row), c01 = v128.load(row, 16);
  row += ldc;
  let c10 = v128.load(row), c11 = v128.load(row, 16);
  row += ldc;
  let c20 = v128.load(row), c21 = v128.load(row, 16);
  row += ldc;
  let c30 = v128.load(row), c31 = v128.load(row, 16);
  for (; m > 0; m--, a += lda, b += ldb) {
    const b0 = v128.load(b), b1 = v128.load(b, 16);
    let s = v128.load32_splat(a);
    c00 = multiplyAdd(s, b0, c00), c01 = multiplyAdd(s, b1, c01), s = v128.load32_splat(a, 4);
    c10 = multiplyAdd(s, b0, c10), c11 = multiplyAdd(s, b1, c11), s = v128.load32_splat(a, 8);
    c20 = multiplyAdd(s, b0, c20), c21 = multiplyAdd(s, b1, c21), s = v128.load32_splat(a, 12);
    c30 = multiplyAdd(s, b0, c30), c31 = multiplyAdd(s, b1, c31);
  }
  v128.store(c, c00), v128.store(c, c01, 16), c += ldc;
  v128.store(c, c10), v128.store(c, c11, 16), c += ldc;
  v128.store(c, c20), v128.store(c, c21, 16), c += ldc;
  v128.store(c, c30), v128.store(c, c31, 16);
}

/** C[1, 8] */
function columnTile1(a: usize, lda: usize, b: usize, ldb: usize, c: usize, m: i32): void {
  let c0 = v128.load(c), c1 = v128.load(c, 16);
  for (; m > 0; m--, a += lda, b += ldb) {
    const s = v128.load32_splat(a);
    c0 = multiplyAdd(s, v128.load(b), c0), c1 = multiplyAdd(s, v128.load(b, 16), c1);
  }
  v128.store(c, c0), v128.store(c, c1, 16);
}
