/**
 * Kernels over a memory of their own. Every array lies between two bands that nothing may write to, and gaps between rows hold NaN, so that a kernel
 * which reads or writes outside its rows shows up.
 */
import fc from 'fast-check';
import { Random } from '../../../src/core/random.ts';
import type { Kernels } from '../../../src/engine/kernels/kernels.ts';
import type { EngineMemory } from '../../../src/engine/kernels/web-assembly.ts';
import { instantiateKernels, type KernelsBuild } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';

export const BUILDS = ['relaxed', 'plain'] as const satisfies readonly KernelsBuild[];

/** Rows of `n` numbers, `ld` apart. */
export interface Matrix {
  readonly pointer: number;
  readonly ld: number;
  readonly m: number;
  readonly n: number;
}

const BAND_BYTES = 64;
const BAND_VALUE = 0x5a5a5a5a;
const PAGE = 65536;
const FIRST = PAGE;

export class KernelBench {
  readonly kernels: Kernels;
  readonly #memory: EngineMemory;
  readonly #first: number;
  #next: number;
  #bands: number[] = [];

  /** Arrays are laid out from address `first` on, a multiple of 16. Untouched pages below it cost nothing. */
  constructor(build: KernelsBuild, first = FIRST) {
    this.#memory = new WebAssembly.Memory({ initial: Math.ceil(first / PAGE) + 1, maximum: 65536, shared: true });
    this.#first = first;
    this.#next = first;
    this.kernels = instantiateKernels(loadKernelsModule(build).module, this.#memory);
  }

  /** Forgets all arrays. */
  clear(): this {
    this.#next = this.#first;
    this.#bands = [];
    return this;
  }

  /** Room for `count` numbers, filled with `fill`. Returns its address. */
  room(count: number, fill = Number.NaN): number {
    const pointer = this.#next + BAND_BYTES;
    const bytes = Math.ceil(count / 4) * 16;
    this.#next = pointer + bytes + BAND_BYTES;
    const missing = this.#next - this.#memory.buffer.byteLength;
    if (missing > 0) this.#memory.grow(Math.ceil(missing / PAGE));
    new Int32Array(this.#memory.buffer, pointer - BAND_BYTES, BAND_BYTES / 4).fill(BAND_VALUE);
    new Int32Array(this.#memory.buffer, pointer + bytes, BAND_BYTES / 4).fill(BAND_VALUE);
    this.#bands.push(pointer - BAND_BYTES, pointer + bytes);
    this.view(pointer, bytes / 4).fill(fill);
    return pointer;
  }

  floats(values: ArrayLike<number>): number {
    const pointer = this.room(values.length);
    this.view(pointer, values.length).set(values);
    return pointer;
  }

  ints(values: ArrayLike<number>): number {
    const pointer = this.room(values.length);
    new Int32Array(this.#memory.buffer, pointer, values.length).set(values);
    return pointer;
  }

  /** `values` row after row, with `gap` numbers of NaN between rows. */
  matrix(values: ArrayLike<number>, m: number, n: number, gap = 0): Matrix {
    const ld = n + gap;
    const pointer = this.room(m * ld);
    for (let row = 0; row < m; row++) for (let i = 0; i < n; i++) this.view(pointer + (row * ld + i) * 4, 1)[0] = values[row * n + i]!;
    return { pointer, ld, m, n };
  }

  /** The numbers of a matrix without its gaps, which must be untouched. */
  read({ pointer, ld, m, n }: Matrix): Float32Array {
    const all = this.view(pointer, m * ld);
    const values = new Float32Array(m * n);
    for (let row = 0; row < m; row++) {
      values.set(all.subarray(row * ld, row * ld + n), row * n);
      if (!all.subarray(row * ld + n, (row + 1) * ld).every(Number.isNaN)) throw new Error(`wrote into the gap behind row ${row}`);
    }
    this.expectIntact();
    return values;
  }

  readFloats(pointer: number, count: number): Float32Array {
    this.expectIntact();
    return this.view(pointer, count).slice();
  }

  expectIntact(): void {
    for (const band of this.#bands) {
      if (!new Int32Array(this.#memory.buffer, band, BAND_BYTES / 4).every((v) => v === BAND_VALUE))
        throw new Error(`wrote into the band at ${band}`);
    }
  }

  view(pointer: number, count: number): Float32Array {
    return new Float32Array(this.#memory.buffer, pointer, count);
  }
}

/** `count` numbers, about normal with standard deviation `scale`, as float32. */
export function someFloats(seed: number, count: number, scale = 1): Float32Array {
  const random = Random.fromSeed(seed);
  const uniform = () => random.uint32() / 2 ** 32;
  return Float32Array.from({ length: count }, () => scale * (uniform() + uniform() + uniform() + uniform() - 2) * Math.sqrt(3));
}

export const anySeed = fc.integer({ min: 0, max: 2 ** 31 - 1 });
export const multipleOf = (step: number, max: number) => fc.integer({ min: 1, max: max / step }).map((i) => i * step);

/** The bits, so that 0 and -0 differ and NaN equals NaN. */
export const bitsOf = (values: Float32Array): number[] => [...new Uint32Array(values.buffer, values.byteOffset, values.length)];

/** The largest distance between two arrays, each measured against 1 + |wanted|; Infinity where one is NaN and the other is not. */
export function distance(got: ArrayLike<number>, wanted: ArrayLike<number>): number {
  if (got.length !== wanted.length) return Infinity;
  let worst = 0;
  for (let i = 0; i < wanted.length; i++) {
    if (Object.is(got[i], wanted[i]) || (Number.isNaN(got[i]) && Number.isNaN(wanted[i]))) continue;
    const apart = Math.abs(got[i]! - wanted[i]!) / (1 + Math.abs(wanted[i]!));
    worst = Number.isNaN(apart) ? Infinity : Math.max(worst, apart);
  }
  return worst;
}

/** Central differences of a float64 function: df / dx[i] for every i. */
export function numericGradient(f: (x: Float64Array) => number, x: ArrayLike<number>, step = 1e-5): Float64Array {
  return Float64Array.from({ length: x.length }, (_, i) => {
    const at = (shift: number) => f(Float64Array.from(x, (v, j) => (i === j ? v + shift : v)));
    return (at(step) - at(-step)) / (2 * step);
  });
}

export const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => Array.from(a).reduce((sum, v, i) => sum + v * b[i]!, 0);
