/**
 * CPython's `random.seed(seed); random.shuffle(list)`, so that a shuffled benchmark has the questions of a published run. The Mersenne Twister MT19937
 * of Matsumoto and Nishimura (ACM TOMACS 8, 1998), seeded by an integer of any size.
 */
const SIZE = 624;
const MIDDLE = 397;

class MersenneTwister {
  readonly #state = new Uint32Array(SIZE);
  #next = SIZE;

  /** The sign is ignored, as by CPython. */
  constructor(seed: bigint) {
    this.#seedByArray(words(seed < 0n ? -seed : seed));
  }

  /** A whole number from 0 to 2^32 - 1. */
  next32(): number {
    if (this.#next === SIZE) this.#twist();
    let y = this.#state[this.#next++]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    y ^= y >>> 18;
    return y >>> 0;
  }

  /** A whole number below `bound`, which is from 1 to 2^32 - 1. Draws as many bits as the bound has, until a number is below it. */
  below(bound: number): number {
    const bits = 32 - Math.clz32(bound);
    for (;;) {
      const drawn = this.next32() >>> (32 - bits);
      if (drawn < bound) return drawn;
    }
  }

  #seedBy(seed: number): void {
    this.#state[0] = seed;
    for (let i = 1; i < SIZE; i++) {
      const before = this.#state[i - 1]! ^ (this.#state[i - 1]! >>> 30);
      this.#state[i] = Math.imul(1812433253, before) + i;
    }
  }

  #seedByArray(key: Uint32Array): void {
    const state = this.#state;
    this.#seedBy(19650218);
    let i = 1;
    let j = 0;
    const advance = () => {
      i += 1;
      if (i < SIZE) return;
      state[0] = state[SIZE - 1]!;
      i = 1;
    };
    const mixed = (factor: number) => state[i]! ^ Math.imul(state[i - 1]! ^ (state[i - 1]! >>> 30), factor);
    for (let k = Math.max(SIZE, key.length); k > 0; k--) {
      state[i] = mixed(1664525) + key[j]! + j;
      advance();
      j = (j + 1) % key.length;
    }
    for (let k = SIZE - 1; k > 0; k--) {
      state[i] = mixed(1566083941) - i;
      advance();
    }
    state[0] = 0x80000000;
  }

  #twist(): void {
    const state = this.#state;
    for (let i = 0; i < SIZE; i++) {
      const y = (state[i]! & 0x80000000) | (state[(i + 1) % SIZE]! & 0x7fffffff);
      state[i] = state[(i + MIDDLE) % SIZE]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.#next = 0;
  }
}

/** 32 bits each, the lowest first; at least one. */
function words(value: bigint): Uint32Array {
  const parts: number[] = [];
  for (let rest = value; rest > 0n; rest >>= 32n) parts.push(Number(rest & 0xffffffffn));
  return Uint32Array.from(parts.length === 0 ? [0] : parts);
}

/** The order of `length` things after CPython's shuffle: place i gets the item from the i-th number. */
export function pythonShuffle(length: number, seed: bigint): number[] {
  const random = new MersenneTwister(seed);
  const order = Array.from({ length }, (_, i) => i);
  for (let i = length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}
