/**
 * The seeded random number generator. The package uses no other source of randomness, so the draws of a run are a function of its seed.
 *
 * xoshiro128** seeded through splitmix32 (Blackman and Vigna, public domain): 32-bit arithmetic only, the same on every machine.
 * Not for cryptography.
 *
 * @example Random.fromSeed(0).fork('row 7').integer(6) // a die: 0 to 5
 */
export class Random {
  readonly #s: Uint32Array;

  private constructor(state: Uint32Array) {
    this.#s = state;
  }

  /** A generator for an integer seed of at least 0, folded to 32 bits. Negative and fractional seeds have streams of their own. Throws RangeError for NaN and infinities. */
  static fromSeed(seed: number): Random {
    if (!Number.isFinite(seed)) throw new RangeError(`The seed must be a finite number, got ${seed}`);
    const isWhole = Number.isInteger(seed) && seed >= 0;
    let x = isWhole ? (seed ^ Math.floor(seed / 2 ** 32)) >>> 0 : foldBits(seed);
    const state = new Uint32Array(4);
    for (let i = 0; i < 4; i++) {
      x = (x + 0x9e3779b9) >>> 0;
      let z = x;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      state[i] = (z ^ (z >>> 15)) >>> 0;
    }
    // Separates it from the integer seed with the same 32 bits.
    if (!isWhole) state[3] = state[3]! ^ 0x5bd1e995;
    return new Random(state);
  }

  /** An independent generator for `key`. The same key gives the same stream until this generator draws a number. */
  fork(key: string | number): Random {
    let h = 0x811c9dc5;
    for (const char of String(key)) h = Math.imul(h ^ char.codePointAt(0)!, 0x01000193) >>> 0;
    const s = this.#s;
    return Random.fromSeed((h ^ s[0]! ^ Math.imul(s[1]!, 0x9e3779b1) ^ Math.imul(s[2]!, 0x85ebca6b) ^ Math.imul(s[3]!, 0xc2b2ae35)) >>> 0);
  }

  /** Uniform over the integers 0 to 2^32 - 1. */
  uint32(): number {
    const s = this.#s;
    const product = Math.imul(s[1]!, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const t = s[1]! << 9;
    s[2]! ^= s[0]!;
    s[3]! ^= s[1]!;
    s[1]! ^= s[2]!;
    s[0]! ^= s[3]!;
    s[2]! ^= t;
    s[3] = (s[3]! << 11) | (s[3]! >>> 21);
    return result;
  }

  /** Uniform in [0, 1), 53 random bits. */
  float(): number {
    return ((this.uint32() >>> 5) * 67108864 + (this.uint32() >>> 6)) / 9007199254740992;
  }

  /** Uniform over 0 to n - 1, without modulo bias. Throws RangeError unless n is an integer from 1 to 2^32. */
  integer(n: number): number {
    if (!(Number.isInteger(n) && n >= 1 && n <= 2 ** 32)) throw new RangeError(`n must be an integer from 1 to 2^32, got ${n}`);
    const limit = 2 ** 32 - (2 ** 32 % n);
    for (;;) {
      const x = this.uint32();
      if (x < limit) return x % n;
    }
  }

  /** A copy of the items in uniformly random order (Fisher-Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.integer(i + 1);
      const held = out[i]!;
      out[i] = out[j]!;
      out[j] = held;
    }
    return out;
  }
}

/** Folds the 64 bits of a number to 32. */
function foldBits(value: number): number {
  const [low = 0, high = 0] = new Uint32Array(Float64Array.of(value).buffer);
  let z = Math.imul(high ^ (high >>> 16), 0x21f0aaad) ^ low;
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return (z ^ (z >>> 15)) >>> 0;
}
