/** The engine's memory as numbers. Views are made once and again after the memory has grown. */
import type { EngineMemory } from '../kernels/web-assembly.ts';

export class MemoryViews {
  readonly #memory: EngineMemory;
  #buffer: SharedArrayBuffer;
  #floats: Float32Array;
  #ints: Int32Array;

  constructor(memory: EngineMemory) {
    this.#memory = memory;
    this.#buffer = memory.buffer;
    this.#floats = new Float32Array(this.#buffer);
    this.#ints = new Int32Array(this.#buffer);
  }

  /** To be called before a piece of work: what is handed out from here on reaches to the end of the memory. */
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

  /** Moves the rows `rows` (ascending, of `width` numbers) of `source` to the front of `target`, which may be `source`. Neighbours go in one piece. */
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
