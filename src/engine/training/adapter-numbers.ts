/**
 * The numbers of a trained adapter in the shared memory: its parameters, Adam's moments and one gradient per thread. This class knows their layout, not how they
 * are trained.
 */
import { Random } from '../../core/random.ts';
import type { MemoryRegion, SharedMemory } from '../compute/memory.ts';
import type { AdapterGradient } from '../compute/training-types.ts';
import type { AdapterTensors, EngineAdapterState } from './trainer-types.ts';
import { type MatrixPlace, type NumbersLayout, matricesAt } from './trainer-numbers.ts';

interface Matrices {
  readonly a: Float32Array;
  readonly b: Float32Array;
}

/** Its number fields are addresses of vectors of `layout.count` numbers. */
export class AdapterNumbers {
  readonly layout: NumbersLayout;
  readonly parameters: number;
  readonly firstMoments: number;
  readonly secondMoments: number;
  /** One per thread. */
  readonly gradients: readonly number[];
  readonly #memory: SharedMemory;
  readonly #region: MemoryRegion;

  /** All numbers start at 0. Throws MemoryLimitError. */
  constructor(memory: SharedMemory, layout: NumbersLayout, threads: number) {
    this.layout = layout;
    this.#memory = memory;
    this.#region = memory.allocate((3 + threads) * layout.count * 4);
    const vector = (index: number) => this.#region.pointer + index * layout.count * 4;
    [this.parameters, this.firstMoments, this.secondMoments] = [vector(0), vector(1), vector(2)];
    this.gradients = Array.from({ length: threads }, (_, thread) => vector(3 + thread));
    this.#numbers(this.#region.pointer, (3 + threads) * layout.count).fill(0);
  }

  /** Addresses of the matrices in the vector at `pointer`. */
  matrices(pointer: number, size: { readonly rank: number; readonly layers: number }): AdapterGradient {
    return matricesAt(this.layout, { pointer, ...size });
  }

  /** Draws A from PEFT's distribution, with one random stream per layer, so that it depends on seed and path only. B stays 0. */
  draw(seed: number): void {
    for (const { path, inputs, a } of this.layout.modules) {
      const random = Random.fromSeed(seed).fork(path);
      const bound = 1 / Math.sqrt(inputs);
      const numbers = this.#at(this.parameters, a);
      for (let i = 0; i < numbers.length; i++) numbers[i] = (2 * random.float() - 1) * bound;
    }
  }

  /** Returns copies. */
  read(step: number): EngineAdapterState {
    const { modules } = this.layout;
    const copies = (pointer: number) => this.#views(pointer).map(({ a, b }) => ({ a: a.slice(), b: b.slice() }));
    const tensors = copies(this.parameters).map((pair, i): AdapterTensors => {
      const { path, inputs, outputs } = modules[i]!;
      return { path, inputs, outputs, ...pair };
    });
    return { step, tensors, firstMoments: copies(this.firstMoments), secondMoments: copies(this.secondMoments) };
  }

  write({ tensors, firstMoments, secondMoments }: EngineAdapterState): void {
    this.#set(this.parameters, tensors);
    this.#set(this.firstMoments, firstMoments);
    this.#set(this.secondMoments, secondMoments);
  }

  /** In the order of the layout's modules. */
  writeParameters(tensors: readonly Matrices[]): void {
    this.#set(this.parameters, tensors);
  }

  free(): void {
    this.#memory.free(this.#region);
  }

  #set(pointer: number, matrices: readonly Matrices[]): void {
    for (const [i, { a, b }] of this.#views(pointer).entries()) {
      a.set(matrices[i]!.a);
      b.set(matrices[i]!.b);
    }
  }

  #views(pointer: number): Matrices[] {
    return this.layout.modules.map(({ a, b }) => ({ a: this.#at(pointer, a), b: this.#at(pointer, b) }));
  }

  #at(pointer: number, { offset, count }: MatrixPlace): Float32Array {
    return this.#numbers(pointer + offset * 4, count);
  }

  #numbers(pointer: number, count: number): Float32Array {
    return new Float32Array(this.#memory.memory.buffer, pointer, count);
  }
}
