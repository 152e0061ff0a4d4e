/**
 * Billions of operations per second of the most expensive kernels: matrix products and attention, both builds, one thread. Takes the best of several runs,
 * because other work only ever slows them down.
 *
 *     npm run bench -- kernels [--seconds 0.2]
 */
import { parseArgs } from 'node:util';
import { Random } from '../../src/core/random.ts';
import { BLOCK_TOKENS, type Kernels } from '../../src/engine/kernels/kernels.ts';
import { instantiateKernels, type KernelsBuild } from '../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../src/engine/kernels/load-kernels.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '0.2' } } });
const SECONDS = Number(values.seconds);
const BUILDS: readonly KernelsBuild[] = ['relaxed', 'plain'];

/** A kernel call to time, with its number of multiplications and additions. */
interface Subject {
  readonly what: string;
  readonly operations: number;
  readonly prepare: (bench: BenchMemory) => () => void;
}

class BenchMemory {
  readonly kernels: Kernels;
  readonly #memory = new WebAssembly.Memory({ initial: 2, maximum: 4096, shared: true });
  readonly #random = Random.fromSeed(1);
  #next = 65536;

  constructor(build: KernelsBuild) {
    this.kernels = instantiateKernels(loadKernelsModule(build).module, this.#memory);
  }

  floats(count: number): number {
    const pointer = this.#take(count);
    const array = new Float32Array(this.#memory.buffer, pointer, count);
    for (let i = 0; i < count; i++) array[i] = this.#random.uint32() / 2 ** 32 - 0.5;
    return pointer;
  }

  ints(numbers: readonly number[]): number {
    const pointer = this.#take(numbers.length);
    new Int32Array(this.#memory.buffer, pointer, numbers.length).set(numbers);
    return pointer;
  }

  #take(count: number): number {
    const pointer = this.#next;
    this.#next += Math.ceil(count / 16) * 64;
    const missing = this.#next - this.#memory.buffer.byteLength;
    if (missing > 0) this.#memory.grow(Math.ceil(missing / 65536));
    return pointer;
  }
}

const gemm = (m: number, n: number, k: number): Subject => ({
  what: `gemm ${m} x ${n} x ${k}`,
  operations: 2 * m * n * k,
  prepare: (bench) => {
    const [a, b, c] = [bench.floats(m * k), bench.floats(n * k), bench.floats(m * n)];
    return () => bench.kernels.gemm(a, k, b, k * 8, c, n, m, n, k, 0);
  },
});

const gemmBfloat16 = (m: number, n: number, k: number): Subject => ({
  what: `gemmBfloat16 ${m} x ${n} x ${k}`,
  operations: 2 * m * n * k,
  prepare: (bench) => {
    const [a, rows, b, c] = [bench.floats(m * k), bench.floats(n * k), bench.floats((n * k) / 2), bench.floats(m * n)];
    bench.kernels.packBfloat16(rows, k, b, k, n, 1);
    return () => bench.kernels.gemmBfloat16(a, k, b, k * 8, c, n, m, n, k, 0);
  },
});

const gemmTransposed = (m: number, i: number, n: number): Subject => ({
  what: `gemmTransposed ${m} x ${i} x ${n}`,
  operations: 2 * m * i * n,
  prepare: (bench) => {
    const [a, b, c] = [bench.floats(m * i), bench.floats(m * n), bench.floats(i * n)];
    return () => bench.kernels.gemmTransposed(a, i, b, n, c, n, m, i, n);
  },
});

interface AttentionSize {
  readonly m: number;
  readonly past: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly d: number;
}

/** Products of queries and keys, and of weights and values, over the positions that each row sees. */
const attentionOperations = ({ m, past, heads, d }: AttentionSize) => 4 * heads * d * (m * past + (m * (m + 1)) / 2);
const nameOf = ({ m, past, heads, kvHeads, d }: AttentionSize) => `${m} after ${past}, ${heads}/${kvHeads} heads of ${d}`;

function prepareAttention(bench: BenchMemory, { m, past, heads, kvHeads, d }: AttentionSize, backward: boolean): () => void {
  const width = heads * d;
  const blocks = Math.ceil((past + m) / BLOCK_TOKENS);
  const blockFloats = 2 * kvHeads * d * BLOCK_TOKENS;
  const [cache, gradients] = [bench.floats(blocks * blockFloats), bench.floats(blocks * blockFloats)];
  const table = bench.ints(Array.from({ length: blocks }, (_, i) => blocks - 1 - i));
  const scratch = bench.floats(96 * blocks * BLOCK_TOKENS + 32 * d + m * heads);
  const [q, out, dOut, dq] = [bench.floats(m * width), bench.floats(m * width), bench.floats(m * width), bench.floats(m * width)];
  const statistics = bench.floats(m * heads);
  const { kernels } = bench;
  const sizes = [m, past, heads, kvHeads, d] as const;
  const forward = () => kernels.attention(q, width, ...sizes, cache, blockFloats * 4, table, out, width, scratch, statistics);
  forward();
  if (!backward) return forward;
  return () =>
    kernels.attentionBackward(
      ...([q, width, ...sizes, cache, blockFloats * 4, table, out, width] as const),
      ...([statistics, dOut, width, dq, width, gradients, blockFloats * 4, scratch] as const),
    );
}

const attention = (size: AttentionSize): Subject => ({
  what: `attention, ${nameOf(size)}`,
  operations: attentionOperations(size),
  prepare: (bench) => prepareAttention(bench, size, false),
});

const attentionBackward = (size: AttentionSize): Subject => ({
  what: `attentionBackward, ${nameOf(size)}`,
  operations: 2.5 * attentionOperations(size),
  prepare: (bench) => prepareAttention(bench, size, true),
});

/** Limited by memory, so measured in billions of numbers per second. */
const logSoftmax = (m: number, n: number): Subject => ({
  what: `logSoftmax ${m} x ${n} (numbers)`,
  operations: m * n,
  prepare: (bench) => {
    const x = bench.floats(m * n);
    return () => bench.kernels.logSoftmax(x, n, m, n, n, 1);
  },
});

const NANO = { heads: 4, kvHeads: 2, d: 32 };
const LARGE = { heads: 16, kvHeads: 8, d: 128 };
const SUBJECTS: readonly Subject[] = [
  gemm(4096, 128, 128),
  gemm(64, 128, 512),
  gemm(64, 1600, 128),
  gemm(512, 1024, 1024),
  gemm(32, 768, 128),
  gemm(4, 768, 128),
  gemm(2, 768, 128),
  gemm(1, 768, 128),
  gemm(1, 3072, 1024),
  gemm(64, 8, 128),
  // Larger than the caches, so weights come from memory.
  ...[1, 8, 256].flatMap((m) => [gemm(m, 16_384, 1024), gemmBfloat16(m, 16_384, 1024)]),
  gemmTransposed(2048, 8, 128),
  gemmTransposed(2048, 16, 384),
  gemmTransposed(512, 128, 128),
  attention({ m: 1, past: 200, ...NANO }),
  attention({ m: 1, past: 1000, ...NANO }),
  attention({ m: 1, past: 200, ...LARGE }),
  attention({ m: 200, past: 0, ...NANO }),
  attention({ m: 16, past: 200, ...NANO }),
  attention({ m: 200, past: 0, ...LARGE }),
  attentionBackward({ m: 200, past: 0, ...NANO }),
  attentionBackward({ m: 200, past: 0, ...LARGE }),
  logSoftmax(64, 1600),
];

/** Billions of operations per second. */
function rate({ operations, prepare }: Subject, build: KernelsBuild): number {
  const call = prepare(new BenchMemory(build));
  const perRound = Math.max(1, Math.round(2e7 / operations));
  let best = 0;
  const end = performance.now() + SECONDS * 1000;
  do {
    const start = performance.now();
    for (let i = 0; i < perRound; i++) call();
    best = Math.max(best, (operations * perRound) / (performance.now() - start) / 1e6);
  } while (performance.now() < end);
  return best;
}

process.stdout.write(`${''.padEnd(52)}${BUILDS.map((build) => build.padStart(10)).join('')}   10^9/s\n`);
for (const subject of SUBJECTS) {
  const rates = BUILDS.map((build) => rate(subject, build).toFixed(1).padStart(10));
  process.stdout.write(`${subject.what.padEnd(52)}${rates.join('')}\n`);
}
