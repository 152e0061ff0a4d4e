/** Typed views of the engine's memory, recreated after the memory has grown. */
import type { EngineMemory } from '../kernels/web-assembly.ts';

export class MemoryViews {
  readonly #memory: EngineMemory;
  #buffer: EngineMemory['buffer'];
  #floats: Float32Array;
  #ints: Int32Array;

  constructor(memory: EngineMemory) {
    this.#memory = memory;
    this.#buffer = memory.buffer;
    this.#floats = new Float32Array(this.#buffer);
    this.#ints = new Int32Array(this.#buffer);
  }

  /** Call this before using the views, so that they cover the whole memory. */
  refresh(): void {
    const { buffer } = this.#memory;
    if (buffer === this.#buffer) return;
    this.#buffer = buffer;
    this.#floats = new Float32Array(buffer);
    this.#ints = new Int32Array(buffer);
  }

  /** Indexed by address / 4. */
  get floats(): Float32Array {
    return this.#floats;
  }

  /** Indexed by address / 4. */
  get ints(): Int32Array {
    return this.#ints;
  }

  /** Copies the given rows (ascending, `width` numbers each) of `source` to the front of `target`, which may be `source`. Adjacent rows are copied together. */
  gather(source: number, target: number, width: number, rows: Int32Array): void {
    const floats = this.#floats;
    for (let i = 0; i < rows.length;) {
      const first = rows[i]!;
      let count = 1;
      while (i + count < rows.length && rows[i + count] === first + count) count++;
      const from = source / 4 + first * width;
      floats.copyWithin(target / 4 + i * width, from, from + count * width);
      i += count;
    }
  }
}
