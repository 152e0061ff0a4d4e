/** One layer's attention of one sequence, over blocks that lie in any order in a cache full of NaN, compared with the same in float64. */
import fc from 'fast-check';
import { Random } from '../../../src/core/random.ts';
import { BLOCK_TOKENS } from '../../../src/engine/kernels/kernels.ts';
import { type KernelBench, someFloats } from './kernel-bench.ts';

export interface AttentionShape {
  readonly length: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly d: number;
  /** Where in a shuffled row of blocks the sequence's begin. */
  readonly firstBlock: number;
}

/** [length, heads · d], twice [length, kvHeads · d]. */
export interface AttentionInputs {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

const BLOCKS = 20;
const GAP = 4;

export const anyShape = (maxLength: number): fc.Arbitrary<AttentionShape> =>
  fc
    .record({
      length: fc.integer({ min: 1, max: maxLength }),
      groups: fc.constantFrom([1, 1], [2, 2], [4, 2], [6, 2], [3, 1], [8, 1], [14, 2]),
      d: fc.constantFrom(8, 16, 24, 32, 40, 64, 128),
      firstBlock: fc.integer({ min: 0, max: 6 }),
    })
    .map(({ groups: [heads, kvHeads], ...rest }) => ({ ...rest, heads, kvHeads }));

export class AttentionCase {
  readonly inputs: AttentionInputs;
  readonly #bench: KernelBench;
  readonly #shape: AttentionShape;
  readonly #blockFloats: number;
  readonly #blocks: readonly number[];
  readonly #table: number;
  readonly #cache: number;
  readonly #gradientCache: number;

  constructor(bench: KernelBench, seed: number, shape: AttentionShape) {
    const { length, heads, kvHeads, d } = shape;
    this.#bench = bench;
    this.#shape = shape;
    this.inputs = {
      q: someFloats(seed, length * heads * d, 1.5 / Math.sqrt(d)),
      k: someFloats(seed + 1, length * kvHeads * d),
      v: someFloats(seed + 2, length * kvHeads * d),
    };
    // A cache block of a layer may be larger than what one layer needs.
    this.#blockFloats = 2 * kvHeads * d * BLOCK_TOKENS + 16;
    this.#blocks = shuffled(seed, BLOCKS).slice(shape.firstBlock, shape.firstBlock + Math.ceil(length / BLOCK_TOKENS));
    this.#table = bench.ints(this.#blocks);
    this.#cache = bench.room(BLOCKS * this.#blockFloats);
    this.#gradientCache = bench.room(BLOCKS * this.#blockFloats, 0);
  }

  /** Puts the keys and values of positions [from, to) into the cache. */
  write(from: number, to: number): void {
    const { kvHeads, d } = this.#shape;
    const width = kvHeads * d;
    const k = this.#bench.matrix(this.inputs.k.subarray(from * width, to * width), to - from, width, GAP);
    const v = this.#bench.matrix(this.inputs.v.subarray(from * width, to * width), to - from, width, GAP * 2);
    const { kernels } = this.#bench;
    kernels.writeCache(k.pointer, k.ld, v.pointer, v.ld, to - from, from, kvHeads, d, this.#cache, this.#blockFloats * 4, this.#table);
  }

  /** Positions [from, to): out [to - from, heads · d] and statistics [to - from, heads]. */
  attend(from: number, to: number): { readonly out: Float32Array; readonly statistics: Float32Array } {
    const { heads, kvHeads, d } = this.#shape;
    const width = heads * d;
    const rows = to - from;
    const q = this.#bench.matrix(this.inputs.q.subarray(from * width, to * width), rows, width, GAP);
    const out = this.#bench.matrix(new Float32Array(rows * width), rows, width, GAP * 2);
    const statistics = this.#bench.room(rows * heads);
    const scratch = this.#bench.room(48 * Math.ceil(to / 16) * 16);
    const blockBytes = this.#blockFloats * 4;
    const { kernels } = this.#bench;
    kernels.attention(q.pointer, q.ld, rows, from, heads, kvHeads, d, this.#cache, blockBytes, this.#table, out.pointer, out.ld, scratch, statistics);
    return { out: this.#bench.read(out), statistics: this.#bench.readFloats(statistics, rows * heads) };
  }

  /** The gradients of positions [from, to) under `dOut`, after a forward pass of them; those of keys and values of all positions up to `to`, added to earlier ones. */
  backward(from: number, to: number, dOut: Float32Array): AttentionInputs {
    const { heads, kvHeads, d } = this.#shape;
    const bench = this.#bench;
    const width = heads * d;
    const rows = to - from;
    const forward = this.attend(from, to);
    const q = bench.matrix(this.inputs.q.subarray(from * width, to * width), rows, width, GAP);
    const out = bench.matrix(forward.out, rows, width, GAP);
    const dRows = bench.matrix(dOut, rows, width, GAP * 2);
    const dq = bench.matrix(new Float32Array(rows * width).fill(Number.NaN), rows, width, GAP * 3);
    const scratch = bench.room(2 * 48 * Math.ceil(to / 16) * 16 + 32 * d + rows * heads);
    const blockBytes = this.#blockFloats * 4;
    bench.kernels.attentionBackward(
      q.pointer,
      q.ld,
      rows,
      from,
      heads,
      kvHeads,
      d,
      this.#cache,
      blockBytes,
      this.#table,
      out.pointer,
      out.ld,
      bench.floats(forward.statistics),
      dRows.pointer,
      dRows.ld,
      dq.pointer,
      dq.ld,
      this.#gradientCache,
      blockBytes,
      scratch,
    );
    const dk = bench.matrix(new Float32Array(to * kvHeads * d), to, kvHeads * d, GAP);
    const dv = bench.matrix(new Float32Array(to * kvHeads * d), to, kvHeads * d, GAP * 2);
    bench.kernels.readGradientCache(dk.pointer, dk.ld, dv.pointer, dv.ld, to, 0, kvHeads, d, this.#gradientCache, blockBytes, this.#table);
    return { q: bench.read(dq), k: bench.read(dk), v: bench.read(dv) };
  }

  /** What the cache holds of the sequence's `index`-th block, without what is beyond the layer's part. */
  block(index: number): Float32Array {
    return this.#bench.readFloats(this.#cache + this.#blocks[index]! * this.#blockFloats * 4, this.#blockFloats - 16);
  }
}

function shuffled(seed: number, count: number): number[] {
  const random = Random.fromSeed(seed);
  return Array.from({ length: count }, (_, i) => ({ i, key: random.uint32() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ i }) => i);
}

interface Reference {
  readonly out: Float64Array;
  readonly statistics: Float64Array;
}

type Inputs = Readonly<Record<keyof AttentionInputs, ArrayLike<number>>>;

/** Positions from `past` on. */
export function referenceAttention(inputs: Inputs, shape: AttentionShape, past: number): Reference {
  const { length, heads, d } = shape;
  const out = new Float64Array((length - past) * heads * d);
  const statistics = new Float64Array((length - past) * heads);
  for (let row = 0; row < length - past; row++) {
    for (let head = 0; head < heads; head++) {
      const { weights, logSum } = weightsOf(inputs, shape, past + row, head);
      statistics[row * heads + head] = logSum;
      weights.forEach((weight, j) => {
        for (let i = 0; i < d; i++) out[(row * heads + head) * d + i]! += weight * inputs.v[keyAt(shape, j, head) + i]!;
      });
    }
  }
  return { out, statistics };
}

/** Where the key and value of position `j` begin that `head` looks at. */
const keyAt = ({ heads, kvHeads, d }: AttentionShape, j: number, head: number): number => (j * kvHeads + Math.floor(head / (heads / kvHeads))) * d;

function weightsOf({ q, k }: Inputs, shape: AttentionShape, position: number, head: number) {
  const { heads, d } = shape;
  const scores = Float64Array.from({ length: position + 1 }, (_, j) => {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += q[(position * heads + head) * d + i]! * k[keyAt(shape, j, head) + i]!;
    return sum;
  });
  const max = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const logSum = max + Math.log(scores.reduce((sum, s) => sum + Math.exp(s - max), 0));
  return { weights: scores.map((s) => Math.exp(s - logSum)), logSum };
}

/** Gradients of all inputs under dOut [length, heads · d] of a whole sequence. */
export function referenceGradients(
  inputs: Inputs,
  shape: AttentionShape,
  dOut: ArrayLike<number>,
): Readonly<Record<keyof AttentionInputs, Float64Array>> {
  const { length, heads, d } = shape;
  const gradients = { q: new Float64Array(inputs.q.length), k: new Float64Array(inputs.k.length), v: new Float64Array(inputs.v.length) };
  for (let position = 0; position < length; position++) {
    for (let head = 0; head < heads; head++) {
      const { weights } = weightsOf(inputs, shape, position, head);
      const row = (position * heads + head) * d;
      const dWeights = weights.map((_, j) => {
        let sum = 0;
        for (let i = 0; i < d; i++) sum += dOut[row + i]! * inputs.v[keyAt(shape, j, head) + i]!;
        return sum;
      });
      const mean = weights.reduce((sum, weight, j) => sum + weight * dWeights[j]!, 0);
      weights.forEach((weight, j) => {
        const at = keyAt(shape, j, head);
        const dScore = weight * (dWeights[j]! - mean);
        for (let i = 0; i < d; i++) {
          gradients.q[row + i]! += dScore * inputs.k[at + i]!;
          gradients.k[at + i]! += dScore * inputs.q[row + i]!;
          gradients.v[at + i]! += weight * dOut[row + i]!;
        }
      });
    }
  }
  return gradients;
}
