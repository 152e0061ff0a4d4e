/**
 * The numerical kernels, as WebAssembly exports them. Two builds of one source (`assembly/`): `relaxed` uses the fused multiply-add of relaxed SIMD,
 * `plain` runs where that is missing. Pointers are byte offsets into the engine's memory, aligned to 16 bytes unless said; strides (`ld…`) and lengths
 * count float32 numbers. Nothing is allocated and nothing is checked: sizes are the caller's affair.
 *
 * Two promises that the rest of the engine rests on. A row of a result depends on that row's inputs alone, bit for bit: not on how many rows are computed
 * with it. And every sum over keys or features runs in ascending order, in pieces of a fixed length that are added up one after the other (so that less is lost
 * to rounding): cutting it in two between pieces and accumulating gives the same bits.
 * A NaN is never hidden: it reaches all that depends on it, and nothing else. Widths of heads and of normed rows (d) are multiples of 8.
 */

/**
 * A matrix packed for `gemm` as its right-hand side: panels of 8 columns, `[ceil(N / 8)][K][8]`, columns beyond N are 0. What is packed as bfloat16, the upper halves of
 * float32 numbers, takes half the room; its kernels widen each number on the way in, and give the bits that the same numbers give as float32.
 */
export interface Kernels {
  /** Packs B for `gemm`: B is `[K, N]` with stride `ldb`, or, with `transposed`, given as `[N, K]` (a weight `[out, in]`). */
  pack(b: number, ldb: number, packed: number, k: number, n: number, transposed: 0 | 1): void;
  /** The same to bfloat16, of float32 numbers that bfloat16 holds exactly: the lower halves are dropped. */
  readonly packBfloat16: Kernels['pack'];
  /** The other way: rows `[n0, n0 + n)` of a packed `[N, K]` weight to row-major `[n, K]`. n0 is a multiple of 8. */
  unpackRows(packed: number, k: number, n0: number, n: number, rows: number, ldRows: number): void;
  /** A packed `[N, K]` weight (K inputs, N outputs) repacked as the right-hand side of `dX = dY · W`: panels of 8 inputs, `[K / 8][N8][8]` with N8 = N rounded up to 8. For outputs `[n0, n0 + n)` only, n0 a multiple of 8: `[K / 8][n8][8]`. */
  repackTransposed(packed: number, k: number, n0: number, n: number, out: number): void;
  /** The same of a weight packed as bfloat16; `out` is float32. */
  readonly repackTransposedBfloat16: Kernels['repackTransposed'];
  /** C[M, N] = A[M, K] · B, or C += with `accumulate`. Pieces of 64 over K. `panelStride` is K · 8 where panels lie side by side. N a multiple of 8. */
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
  /** C[I, N] += A[M, I]ᵀ · B[M, N]. N a multiple of 8, I any. */
  gemmTransposed(a: number, lda: number, b: number, ldb: number, c: number, ldc: number, m: number, i: number, n: number): void;
  /** Rows of a packed `[V, D]` table by id. ids int32 [M]; out [M, ldOut]. */
  gatherRows(packed: number, d: number, ids: number, out: number, ldOut: number, m: number): void;
  /** The same of a table packed as bfloat16; `out` is float32. */
  readonly gatherRowsBfloat16: Kernels['gatherRows'];

  /** y = x / rms(x) · w over M rows of D. 1 / rms of each row is kept in `inverse` [M] unless that is 0. `x === y` is fine. */
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
  /** Like rmsNorm and rmsNormBackward for `heads` vectors of `d` side by side in each row; `inverse` is [M, heads]. */
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
   * Rotates `heads` vectors of `d` in each of M rows in place, halves against each other as Qwen3 does, and multiplies by `scale`. `direction` 1, or -1 for the
   * gradient. `table` is [position][d]: cosines of the d / 2 frequencies, then sines. positions int32 [M].
   */
  rotate(x: number, ldx: number, m: number, heads: number, d: number, table: number, positions: number, direction: 1 | -1, scale: number): void;
  /** out = silu(gate) · up, rows of n with strides. */
  siluMultiply(gate: number, ldg: number, up: number, ldu: number, out: number, ldo: number, m: number, n: number): void;
  /** Overwrites gate and up with their gradients. */
  siluMultiplyBackward(gate: number, ldg: number, up: number, ldu: number, dOut: number, ldo: number, m: number, n: number): void;
  /** a[i] += b[i]. n a multiple of 4. */
  addTo(a: number, b: number, n: number): void;

  /**
   * Writes M new keys and values (rows of `kvHeads` · `d`, strides ldk, ldv) into the cache of one layer. A cache block holds 16 positions: for each kv head the
   * keys as `[2][d][8]`, then, after the keys of all kv heads, for each kv head the values as `[d / 8][16][8]`. Row i goes to position `past + i`, that is slot
   * `(past + i) % 16` of block `table[(past + i) / 16]`. `table` int32: block numbers; the address of block b in this layer is `cache + b · blockBytes`.
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
   * q [M, heads · d] (scaled already), out [M, heads · d]. Softmax: row maximum, exp, sum in ascending order of position in four lanes, so that the bits do not depend
   * on M or past. `scratch`: at least 48 · (ceil((past + M) / 16) · 16) floats. With `statistics` not 0, [M, heads] gets the natural log of the sum of exp
   * (max included), for the backward pass.
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
   * Gradient of `attention`. dOut [M, heads · d]; `delta` [M, heads] is rowDot(dOut, out) per head, computed here. dq [M, heads · d] is overwritten. dK and dV are
   * accumulated in `gradientCache`, laid out in blocks like the cache (same table, `gradientBlockBytes` between blocks): for each kv head keys row-major [16][d], then
   * values row-major [16][d] after the keys of all kv heads. `scratch`: at least 2 · 48 · (ceil((past + M) / 16) · 16) + 32 · d + M · heads floats.
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
  /** The gradients of M positions from past on, out of the blocks into rows [M, kvHeads · d]. */
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

  /** In place: M rows of n logits, multiplied by `inverseTemperature`, become log-probs. n a multiple of 4; entries from `valid` on become -Infinity and count for nothing. */
  logSoftmax(x: number, ldx: number, m: number, n: number, valid: number, inverseTemperature: number): void;
  /** From rows of log-probs: out[i] = entropy in nats. */
  entropy(logProbs: number, ldx: number, m: number, n: number, out: number): void;
  /**
   * In place: rows of log-probs become the gradient of the logits: inverseTemperature · (dLogProb · (onehot(target) - p) + dEntropy · (-p · (logp + H))). targets int32 [M], dLogProbs [M];
   * dEntropies and entropies [M], or both 0.
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
  /** The first index whose cumulative probability exceeds u, ascending; -1 where rounding leaves none. u in [0, 1) float64. */
  pick(logProbs: number, n: number, u: number): number;
  /** The lowest index of the largest value; -1 where a value is NaN. */
  argmax(x: number, n: number): number;
  /** How many of n values are above `value`. */
  countAbove(x: number, n: number, value: number): number;

  /** Sum of squares of n numbers, in float64. */
  sumOfSquares(x: number, n: number): number;
  /** 1 where all n numbers are finite. */
  allFinite(x: number, n: number): number;
  /** One decoupled-weight-decay Adam step: g is scaled by `scale` first; correction1 = 1 - beta1^t, correction2 = 1 - beta2^t. n a multiple of 4. float32. */
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

/** Positions of one block of the key-value cache. */
export const BLOCK_TOKENS = 16;
