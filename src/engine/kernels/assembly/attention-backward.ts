/**
 * Gradient of causal attention, one block of 16 keys at a time. It recomputes the probabilities from the scores and the forward pass's log-sum-exp, so that nothing
 * of size M · (past + M) is stored. dq of a row sums over blocks in ascending order, dK and dV over heads, then rows.
 */
import { blockOf } from './cache';
import { multiplyRows } from './gemm';
import { multiplyColumns } from './gemm-transposed';
import { transposeSquare } from './packing';
import { at, bytesOf, exponential, lanesBelow, multiplyAdd, sumOfLanes, zero } from './vector';

/** Rows computed at once. */
const ROW_TILE = 48;
/** Bytes per row of scores and of their gradients, both [ROW_TILE, 16]. */
const SCORE_BYTES: usize = 64;

export function attentionBackward(
  q: usize, ldq: i32, m: i32, past: i32, heads: i32, kvHeads: i32, d: i32, cache: usize, blockBytes: i32, table: usize, out: usize, ldo: i32,
  statistics: usize, dOut: usize, lddo: i32, dq: usize, lddq: i32, gradientCache: usize, gradientBlockBytes: i32, scratch: usize,
): void {
  const group = heads / kvHeads;
  const valuesOffset = bytesOf(kvHeads * d * 16);
  const delta = scratch;
  const keyRows = at(delta, (m * heads + 3) & ~3), valueColumns = at(keyRows, d * 16), tiles = at(valueColumns, d * 16);
  computeDelta(out, bytesOf(ldo), dOut, bytesOf(lddo), m, heads, d, delta);
  for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
    const offset = bytesOf(kvHead * d * 16);
    for (let first = 0; first < past + m; first += 16) {
      const keys = blockOf(cache, blockBytes, table, first) + offset;
      const dKeys = blockOf(gradientCache, gradientBlockBytes, table, first) + offset;
      const present = min(16, past + m - first);
      turnKeys(keys, d, present, keyRows);
      turnValues(keys + valuesOffset, d, valueColumns);
      for (let head = kvHead * group; head < (kvHead + 1) * group; head++) {
        for (let row = max(0, first - past); row < m; row += ROW_TILE) {
          const rows = min(ROW_TILE, m - row);
          throughBlock(
            at(q, row * ldq + head * d), bytesOf(ldq), at(dOut, row * lddo + head * d), bytesOf(lddo), at(dq, row * lddq + head * d), bytesOf(lddq),
            rows, past + row - first, d, keys, keyRows, valueColumns, dKeys, dKeys + valuesOffset, at(statistics, row * heads + head),
            at(delta, row * heads + head), bytesOf(heads), tiles, first > 0 ? 1 : 0,
          );
        }
      }
    }
  }
}

/** delta[row, head] = dOut · out */
function computeDelta(out: usize, ldo: usize, dOut: usize, lddo: usize, m: i32, heads: i32, d: i32, delta: usize): void {
  for (let row = 0; row < m; row++) {
    let a = out + <usize>row * ldo, b = dOut + <usize>row * lddo;
    for (let head = 0; head < heads; head++, delta += 4) {
      let sum = zero();
      for (let i = 0; i < d; i += 4, a += 16, b += 16) sum = multiplyAdd(v128.load(a), v128.load(b), sum);
      store<f32>(delta, sumOfLanes(sum));
    }
  }
}

/** Rearranges a block's keys from [2][d][8] to [d / 8][16][8]. Unwritten positions become 0 to keep stale data out of the sums. */
function turnKeys(keys: usize, d: i32, present: i32, to: usize): void {
  for (let i = 0; i < d; i += 8) {
    const panel = at(to, i * 16);
    transposeSquare<f32>(at(keys, i * 8), panel);
    transposeSquare<f32>(at(keys, (d + i) * 8), panel + 256);
    for (let slot = present; slot < 16; slot++) {
      v128.store(at(panel, slot * 8), zero());
      v128.store(at(panel, slot * 8), zero(), 16);
    }
  }
}

/** Rearranges a block's values from [d / 8][16][8] to [2][d][8]. Stale data of unwritten positions ends up in columns that no row sees. */
function turnValues(values: usize, d: i32, to: usize): void {
  for (let i = 0; i < d; i += 8) {
    transposeSquare<f32>(at(values, i * 16), at(to, i * 8));
    transposeSquare<f32>(at(values, i * 16) + 256, at(to, (d + i) * 8));
  }
}

/** One tile of rows through one block. Row i sees slots up to `lead + i`. */
function throughBlock(
  q: usize, ldq: usize, dOut: usize, lddo: usize, dq: usize, lddq: usize, rows: i32, lead: i32, d: i32, keys: usize, keyRows: usize, valueColumns: usize,
  dKeys: usize, dValues: usize, statistics: usize, delta: usize, ldDelta: usize, tiles: usize, accumulate: i32,
): void {
  const scores = tiles, gradients = tiles + ROW_TILE * SCORE_BYTES;
  const panel = bytesOf(d * 8);
  multiplyRows<f32>(q, ldq, keys, panel, scores, SCORE_BYTES, rows, 16, d, 0);
  multiplyRows<f32>(dOut, lddo, valueColumns, panel, gradients, SCORE_BYTES, rows, 16, d, 0);
  for (let row = 0; row < rows; row++) {
    const offset = <usize>row * SCORE_BYTES, strided = <usize>row * ldDelta;
    scoreGradients(scores + offset, gradients + offset, load<f32>(statistics + strided), load<f32>(delta + strided), lead + row + 1);
  }
  multiplyRows<f32>(gradients, SCORE_BYTES, keyRows, 512, dq, lddq, rows, d, 16, accumulate);
  multiplyColumns(scores, SCORE_BYTES, dOut, lddo, dValues, bytesOf(d), rows, 16, d);
  multiplyColumns(gradients, SCORE_BYTES, q, ldq, dKeys, bytesOf(d), rows, 16, d);
}

/** Turns 16 scores into probabilities, and gradients of probabilities into gradients of scores: p · (dp - delta). Both are 0 from `limit` on. */
function scoreGradients(scores: usize, gradients: usize, statistic: f32, delta: f32, limit: i32): void {
  const shift = f32x4.splat(statistic), deltas = f32x4.splat(delta);
  for (let i = 0; i < 16; i += 4) {
    const seen = lanesBelow(i, limit);
    const p = v128.and(exponential(f32x4.sub(v128.load(at(scores, i)), shift)), seen);
    v128.store(at(scores, i), p);
    v128.store(at(gradients, i), v128.and(f32x4.mul(p, f32x4.sub(v128.load(at(gradients, i)), deltas)), seen));
  }
}
