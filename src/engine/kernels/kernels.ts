/**
 * The numerical kernels that WebAssembly exports. The source (`assembly/`) has two builds: `relaxed` uses the fused multiply-add of relaxed SIMD, `plain` runs
 * without it. Pointers are byte offsets into the engine's memory, aligned to 16 bytes unless stated otherwise; strides (`ld…`) and lengths count float32 numbers.
 * The kernels allocate nothing and check nothing: the caller is responsible for sizes.
 *
 * The rest of the engine relies on two guarantees. First, a row of a result depends on that row's inputs only, bit for bit, not on how many rows are computed with it.
 * Second, every sum over keys or features runs in ascending order, in pieces of a fixed length that are added one after the other (which reduces rounding errors):
 * splitting it between pieces and accumulating gives the same bits.
 * A NaN propagates to everything that depends on it, and to nothing else. Widths of heads and of normalized rows (d) are multiples of 8.
 */

/**
 * The right-hand side of `gemm` is packed in panels of 8 columns, `[ceil(N / 8)][K][8]`; columns beyond N are 0. Packed as bfloat16, the upper halves of float32
 * numbers, it takes half the memory; the bfloat16 kernels widen each number as they load it, and give the same bits as the float32 kernels for the same numbers.
 */
export interface Kernels {
  /** Packs B for `gemm`: B is `[K, N]` with stride `ldb`, or, with `transposed`, given as `[N, K]` (a weight `[out, in]`). */
  pack(b: number, ldb: number, packed: number, k: number, n: number, transposed: 0 | 1): void;
  /** Like `pack`, to bfloat16, for float32 numbers that bfloat16 represents exactly: drops the lower halves. */
  readonly packBfloat16: Kernels['pack'];
  /** The inverse: rows `[n0, n0 + n)` of a packed `[N, K]` weight to row-major `[n, K]`. n0 is a multiple of 8. */
  unpackRows(packed: number, k: number, n0: number, n: number, rows: number, ldRows: number): void;
  /**
   * Repacks outputs `[n0, n0 + n)` of a packed `[N, K]` weight (K inputs, N outputs) as the right-hand side of `dX = dY · W`: panels of 8 inputs, `[K / 8][n8][8]`
   * with n8 = n rounded up to 8. n0 is a multiple of 8.
   */
  repackTransposed(packed: number, k: number, n0: number, n: number, out: number): void;
  /** The same for a weight packed as bfloat16; `out` is float32. */
  readonly repackTransposedBfloat16: Kernels['repackTransposed'];
  /** C[M, N] = A[M, K] · B, or C += with `accumulate`. Sums over K in pieces of 64. `panelStride` is K · 8 for adjacent panels. N is a multiple of 8. */
  gemm(
    a: number,
    lda: number,
    packedB: number,
    panelStride: number,
    c: number,
    ldc: number,
    m: number,
    n: number,
    k: number,
    accumulate: 0 | 1,
  ): void;
  /** The same for a B packed as bfloat16; `panelStride` counts its numbers. */
  readonly gemmBfloat16: Kernels['gemm'];
  /** C[I, N] += A[M, I]ᵀ · B[M, N]. N is a multiple of 8, I is any number. */
  gemmTransposed(a: number, lda: number, b: number, ldb: number, c: number, ldc: number, m: number, i: number, n: number): void;
  /** Rows of a packed `[V, D]` table by id. ids int32 [M]; out [M, ldOut]. */
  gatherRows(packed: number, d: number, ids: number, out: number, ldOut: number, m: number): void;
  /** The same for a table packed as bfloat16; `out` is float32. */
  readonly gatherRowsBfloat16: Kernels['gatherRows'];

  /** y = x / rms(x) · w over M rows of D. Stores 1 / rms of each row in `inverse` [M] unless that is 0. x may be y. */
  rmsNorm(x: number, ldx: number, w: number, y: number, ldy: number, inverse: number, m: number, d: number, epsilon: number): void;
  /** dx = the gradient of rmsNorm, or dx += with `accumulate`. */
  rmsNormBackward(
    x: number,
    ldx: number,
    w: number,
    inverse: number,
    dy: number,
    ldy: number,
    dx: number,
    lddx: number,
    m: number,
    d: number,
    accumulate: 0 | 1,
  ): void;
  /** Like rmsNorm and rmsNormBackward, for `heads` adjacent vectors of `d` in each row; `inverse` is [M, heads]. */
  headNorm(x: number, ldx: number, w: number, y: number, ldy: number, inverse: number, m: number, heads: number, d: number, epsilon: number): void;
  headNormBackward(
    x: number,
    ldx: number,
    w: number,
    inverse: number,
    dy: number,
    ldy: number,
    dx: number,
    lddx: number,
    m: number,
    heads: number,
    d: number,
  ): void;
  /**
   * Rotates `heads` vectors of `d` in each of M rows in place, pairing the two halves of a vector as Qwen3 does, and multiplies by `scale`. `direction` is 1, or -1 for
   * the gradient. `table` is [position][d]: cosines of the d / 2 frequencies, then sines. positions int32 [M].
   */
  rotate(x: number, ldx: number, m: number, heads: number, d: number, table: number, positions: number, direction: 1 | -1, scale: number): void;
  /** out = silu(gate) · up, over M rows of n with strides. */
  siluMultiply(gate: number, ldg: number, up: number, ldu: number, out: number, ldo: number, m: number, n: number): void;
  /** Overwrites gate and up with their gradients. */
  siluMultiplyBackward(gate: number, ldg: number, up: number, ldu: number, dOut: number, ldo: number, m: number, n: number): void;
  /** a[i] += b[i]. n is a multiple of 4. */
  addTo(a: number, b: number, n: number): void;

  /**
   * Writes M new keys and values (rows of `kvHeads` · `d`, strides ldk, ldv) to the cache of one layer. A cache block holds 16 positions: first each kv head's keys
   * as `[2][d][8]`, then each kv head's values as `[d / 8][16][8]`. Row i goes to position `past + i`: slot `(past + i) % 16` of block `table[(past + i) / 16]`.
   * `table` holds int32 block numbers; block b of this layer is at `cache + b · blockBytes`.
   */
  writeCache(
    k: number,
    ldk: number,
    v: number,
    ldv: number,
    m: number,
    past: number,
    kvHeads: number,
    d: number,
    cache: number,
    blockBytes: number,
    table: number,
  ): void;
  /**
   * Causal attention of M query rows at positions past … past + M - 1 over all earlier positions and themselves, whose keys and values are in the cache.
   * q [M, heads · d] is already scaled; out [M, heads · d]. Softmax takes the row maximum, exp, and the sum in ascending order of position in four lanes, so that the
   * bits do not depend on M or past. `scratch`: at least 48 · (ceil((past + M) / 16) · 16) floats. `statistics` [M, heads], unless 0, gets the natural log of the sum
   * of exp (maximum included) for the backward pass.
   */
  attention(
    q: number,
    ldq: number,
    m: number,
    past: number,
    heads: number,
    kvHeads: number,
    d: number,
    cache: number,
    blockBytes: number,
    table: number,
    out: number,
    ldo: number,
    scratch: number,
    statistics: number,
  ): void;
  /**
   * Gradient of `attention`. dOut [M, heads · d]. Overwrites dq [M, heads · d]; computes rowDot(dOut, out) per head itself. Accumulates dK and dV in `gradientCache`,
   * whose blocks use the cache's table and are `gradientBlockBytes` apart: first each kv head's keys, row-major [16][d], then each kv head's values, row-major [16][d].
   * `scratch`: at least 2 · 48 · (ceil((past + M) / 16) · 16) + 32 · d + M · heads floats.
   */
  attentionBackward(
    q: number,
    ldq: number,
    m: number,
    past: number,
    heads: number,
    kvHeads: number,
    d: number,
    cache: number,
    blockBytes: number,
    table: number,
    out: number,
    ldo: number,
    statistics: number,
    dOut: number,
    lddo: number,
    dq: number,
    lddq: number,
    gradientCache: number,
    gradientBlockBytes: number,
    scratch: number,
  ): void;
  /** Copies the gradients of positions past … past + M - 1 from the blocks to rows [M, kvHeads · d]. */
  readGradientCache(
    dk: number,
    lddk: number,
    dv: number,
    lddv: number,
    m: number,
    past: number,
    kvHeads: number,
    d: number,
    gradientCache: number,
    gradientBlockBytes: number,
    table: number,
  ): void;

  /** Turns M rows of n logits, times `inverseTemperature`, into log-probs in place. n is a multiple of 4; entries from `valid` on are ignored and become -Infinity. */
  logSoftmax(x: number, ldx: number, m: number, n: number, valid: number, inverseTemperature: number): void;
  /** out[i] = entropy of row i of log-probs, in nats. */
  entropy(logProbs: number, ldx: number, m: number, n: number, out: number): void;
  /**
   * Turns rows of log-probs into the gradient of the logits in place: inverseTemperature · (dLogProb · (onehot(target) - p) + dEntropy · (-p · (logp + H))).
   * targets int32 [M], dLogProbs [M]; dEntropies and entropies [M], or both 0.
   */
  logSoftmaxBackward(
    logProbs: number,
    ldx: number,
    m: number,
    n: number,
    targets: number,
    dLogProbs: number,
    entropies: number,
    dEntropies: number,
    inverseTemperature: number,
  ): void;
  /** The first index whose cumulative probability exceeds u; -1 if rounding leaves none. u is a float64 in [0, 1). */
  pick(logProbs: number, n: number, u: number): number;
  /** The lowest index of the largest value; -1 if a value is NaN. */
  argmax(x: number, n: number): number;
  /** Counts those of n values that are above `value`. */
  countAbove(x: number, n: number, value: number): number;

  /** Sum of squares of n numbers, in float64. */
  sumOfSquares(x: number, n: number): number;
  /** 1 if all n numbers are finite, else 0. */
  allFinite(x: number, n: number): number;
  /** One AdamW step in float32. g is first scaled by `scale`; correction1 = 1 - beta1^t, correction2 = 1 - beta2^t. n is a multiple of 4. */
  adam(
    p: number,
    g: number,
    m: number,
    v: number,
    n: number,
    scale: number,
    learningRate: number,
    beta1: number,
    beta2: number,
    epsilon: number,
    weightDecay: number,
    correction1: number,
    correction2: number,
  ): void;
}

/** Positions in one block of the key-value cache. */
export const BLOCK_TOKENS = 16;
