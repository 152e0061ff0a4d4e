/**
 * Causal attention over a paged cache. Each query row is computed over exactly the positions that it may see. Later positions and stale data in the cache cannot
 * affect it, not even as 0 · NaN.
 */
import { narrowValues1, values1, values2, values4, values6 } from './attention-values';
import { blockOf } from './cache';
import { narrowTile1, tile1, tile2, tile4, tile6 } from './gemm-tiles';
import { at, bytesOf, exponential, lanesBelow, larger, maxOfLanes, sumOfLanes, TILE_ROWS, zero } from './vector';

/** Rows whose scores are in scratch at once. Few rows fit the L1 cache and waste little work beyond the diagonal. */
const ROW_TILE = 12;

export function attention(
  q: usize, ldq: i32, m: i32, past: i32, heads: i32, kvHeads: i32, d: i32, cache: usize, blockBytes: i32, table: usize, out: usize, ldo: i32,
  scratch: usize, statistics: usize,
): void {
  const group = heads / kvHeads;
  const valuesOffset = bytesOf(kvHeads * d * 16);
  for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
    const keys = cache + bytesOf(kvHead * d * 16);
    const values = keys + valuesOffset;
    const first = kvHead * group;
    if (m == 1) {
      // The heads of a group see the same keys, so they serve as the rows.
      attendRows(
        at(q, first * d), bytesOf(d), group, past + 1, 0, d, keys, values, blockBytes, table, at(out, first * d), bytesOf(d), scratch,
        statistics ? at(statistics, first) : 0, 1,
      );
      continue;
    }
    for (let head = first; head < first + group; head++) {
      attendRows(
        at(q, head * d), bytesOf(ldq), m, past + 1, 1, d, keys, values, blockBytes, table, at(out, head * d), bytesOf(ldo), scratch,
        statistics ? at(statistics, head) : 0, heads,
      );
    }
  }
}

/** Row i sees `limit + i · step` positions. ldq and ldo are in bytes, ldStatistics in floats. */
function attendRows(
  q: usize, ldq: usize, m: i32, limit: i32, step: i32, d: i32, keys: usize, values: usize, blockBytes: i32, table: usize, out: usize, ldo: usize,
  scratch: usize, statistics: usize, ldStatistics: i32,
): void {
  for (let first = 0; first < m; first += ROW_TILE) {
    const rows = min(ROW_TILE, m - first);
    const seen = limit + first * step;
    const blocks = (seen + (rows - 1) * step + 15) >> 4;
    const ldScores = bytesOf(blocks * 16);
    const to = out + <usize>first * ldo;
    computeScores(q + <usize>first * ldq, ldq, rows, d, keys, blockBytes, table, blocks, scratch, ldScores);
    const inverses = scratch + <usize>ROW_TILE * ldScores;
    for (let row = 0; row < rows; row++) {
      const statistic = statistics ? at(statistics, (first + row) * ldStatistics) : 0;
      store<f32>(at(inverses, row), exponentiate(scratch + <usize>row * ldScores, seen + row * step, statistic));
    }
    sumValues(scratch, ldScores, rows, seen, step, d, values, blockBytes, table, to, ldo);
    for (let row = 0; row < rows; row++) scaleRow(to + <usize>row * ldo, d, load<f32>(at(inverses, row)));
  }
}

/** scores[rows, blocks · 16] = q · keys */
function computeScores(
  q: usize, ldq: usize, rows: i32, d: i32, keys: usize, blockBytes: i32, table: usize, blocks: i32, scores: usize, ldScores: usize,
): void {
  const panel = bytesOf(d * 8);
  let row = 0;
  if (TILE_ROWS == 6) {
    for (; row + 6 <= rows; row += 6, q += 6 * ldq, scores += 6 * ldScores) {
      for (let block = 0; block < blocks; block++) {
        const right = blockOf(keys, blockBytes, table, block * 16);
        tile6<f32>(q, ldq, right, at(scores, block * 16), ldScores, d, 0);
        tile6<f32>(q, ldq, right + panel, at(scores, block * 16 + 8), ldScores, d, 0);
      }
    }
  }
  for (; row + 4 <= rows; row += 4, q += 4 * ldq, scores += 4 * ldScores) {
    for (let block = 0; block < blocks; block++) {
      const right = blockOf(keys, blockBytes, table, block * 16);
      tile4<f32>(q, ldq, right, at(scores, block * 16), ldScores, d, 0);
      tile4<f32>(q, ldq, right + panel, at(scores, block * 16 + 8), ldScores, d, 0);
    }
  }
  for (; row + 2 <= rows; row += 2, q += 2 * ldq, scores += 2 * ldScores) {
    for (let block = 0; block < blocks; block++) {
      tile2<f32>(q, ldq, blockOf(keys, blockBytes, table, block * 16), panel, at(scores, block * 16), ldScores, d, 0);
    }
  }
  if (row < rows) computeRowScores(q, d, keys, blockBytes, table, blocks, scores);
}

function computeRowScores(q: usize, d: i32, keys: usize, blockBytes: i32, table: usize, blocks: i32, scores: usize): void {
  const panel = bytesOf(d * 8);
  let block = 0;
  for (; block + 2 <= blocks; block += 2) {
    const right = blockOf(keys, blockBytes, table, block * 16), further = blockOf(keys, blockBytes, table, block * 16 + 16);
    tile1<f32>(q, right, further, panel, at(scores, block * 16), d, 0);
  }
  if (block < blocks) {
    const right = blockOf(keys, blockBytes, table, block * 16);
    narrowTile1<f32>(q, right, at(scores, block * 16), d, 0);
    narrowTile1<f32>(q, right + panel, at(scores, block * 16 + 8), d, 0);
  }
}

/**
 * Turns scores into e^(score - max), 0 from `limit` to the next multiple of 4; returns 1 / sum. Position p is always summed in lane p mod 4, whatever the tile.
 * Stores max + ln sum in `statistic` unless that is 0.
 */
function exponentiate(scores: usize, limit: i32, statistic: usize): f32 {
  const whole = limit & ~3;
  const lowest = f32x4.splat(-Infinity);
  let largest = lowest;
  for (let i = 0; i < whole; i += 4) largest = larger(largest, v128.load(at(scores, i)));
  if (whole < limit) largest = larger(largest, v128.bitselect(v128.load(at(scores, whole)), lowest, lanesBelow(whole, limit)));
  const maximum = maxOfLanes(largest);
  const shift = f32x4.splat(maximum);
  let sum = zero();
  for (let i = 0; i < whole; i += 4) {
    const e = exponential(f32x4.sub(v128.load(at(scores, i)), shift));
    v128.store(at(scores, i), e);
    sum = f32x4.add(sum, e);
  }
  if (whole < limit) {
    const e = v128.and(exponential(f32x4.sub(v128.load(at(scores, whole)), shift)), lanesBelow(whole, limit));
    v128.store(at(scores, whole), e);
    sum = f32x4.add(sum, e);
  }
  const total = sumOfLanes(sum);
  if (statistic) store<f32>(statistic, <f32>(<f64>maximum + Math.log(<f64>total)));
  return 1 / total;
}

/** out[rows, d] = weights · values. The rows of a tile share the positions that all of them see; the rest is added row by row. */
function sumValues(
  weights: usize, ldw: usize, rows: i32, seen: i32, step: i32, d: i32, values: usize, blockBytes: i32, table: usize, out: usize, ldo: usize,
): void {
  let row = 0;
  while (row < rows) {
    const shared = seen + row * step;
    const from = weights + <usize>row * ldw, to = out + <usize>row * ldo;
    const left = rows - row;
    const together = left >= TILE_ROWS ? TILE_ROWS : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (together == 6) {
      for (let column = 0; column < d; column += 8) values6(from, ldw, values + bytesOf(column * 16), blockBytes, table, shared, at(to, column), ldo);
    } else if (together == 4) {
      for (let column = 0; column < d; column += 8) values4(from, ldw, values + bytesOf(column * 16), blockBytes, table, shared, at(to, column), ldo);
    } else if (together == 2 && (d & 15) == 0) {
      for (let column = 0; column < d; column += 16) values2(from, ldw, values + bytesOf(column * 16), blockBytes, table, shared, at(to, column), ldo);
    } else {
      for (let i = 0; i < together; i++) sumRow(from + <usize>i * ldw, 0, shared, d, values, blockBytes, table, to + <usize>i * ldo);
    }
    if (step) {
      for (let i = 1; i < together; i++) sumRow(from + <usize>i * ldw, shared, shared + i, d, values, blockBytes, table, to + <usize>i * ldo);
    }
    row += together;
  }
}

/** Adds positions [first, limit) to one row; if first is 0, overwrites it. */
function sumRow(weights: usize, first: i32, limit: i32, d: i32, values: usize, blockBytes: i32, table: usize, out: usize): void {
  let column = 0;
  for (; column + 32 <= d; column += 32) values1(weights, values + bytesOf(column * 16), blockBytes, table, first, limit, at(out, column));
  for (; column < d; column += 8) narrowValues1(weights, values + bytesOf(column * 16), blockBytes, table, first, limit, at(out, column));
}

function scaleRow(x: usize, d: i32, factor: f32): void {
  for (let i = 0; i < d; i += 4) v128.store(at(x, i), f32x4.mul(v128.load(at(x, i)), f32x4.splat(factor)));
}
