/**
 * The inverted lists of up to 2^24 passages. A term's list has two tiers, each in order of row: first the passages that contain the term twice or
 * more, then those that contain it once. A posting has the row in the low 24 bits and the passage's length byte in the high 8, so that scoring
 * needs no second look-up. Only the first tier has `frequencies`.
 */

export const MAX_SHARD_ROWS = 1 << 24;
export const ROW_MASK = MAX_SHARD_ROWS - 1;
export const MAX_FREQUENCY = 255;
/** A term in more than one of this many passages gets two bits per passage: absent, once, twice, more often. */
const DENSE_SHARE = 64;

export interface ShardArrays {
  /** Length byte of each row. [rows] */
  readonly lengths: Uint8Array;
  /** Start of each term's list in `postings`. [terms + 1] */
  readonly offsets: Uint32Array;
  /** Start of each term's second tier in `postings`. [terms] */
  readonly middles: Uint32Array;
  /** Start of each term's first tier in `frequencies`. [terms + 1] */
  readonly frequencyOffsets: Uint32Array;
  readonly postings: Int32Array;
  /** 2 to 255; 255 also stands for more. */
  readonly frequencies: Uint8Array;
}

export class Shard {
  readonly arrays: ShardArrays;
  readonly rows: number;
  readonly terms: number;
  /** The range of `lengths`. */
  readonly shortest: number;
  readonly longest: number;
  /** Smallest length byte in each term's second tier; 255 if it is empty. [terms] */
  readonly shortestSingles: Uint8Array;
  /** Offset of a frequent term's codes in `codes`; -1 for other terms. [terms] */
  readonly codeOffsets: Int32Array;
  /** Two bits per passage, 16 passages per Uint32. */
  readonly codes: Uint32Array;

  constructor(arrays: ShardArrays) {
    this.arrays = arrays;
    this.rows = arrays.lengths.length;
    this.terms = arrays.middles.length;
    this.shortest = arrays.lengths.reduce((least, length) => Math.min(least, length), 255);
    this.longest = arrays.lengths.reduce((most, length) => Math.max(most, length), 0);
    this.shortestSingles = shortestSingles(arrays);
    const { offsets } = arrays;
    const numbersPerTerm = Math.ceil(this.rows / 16);
    this.codeOffsets = new Int32Array(this.terms).fill(-1);
    let size = 0;
    for (let t = 0; t < this.terms; t++) {
      if ((offsets[t + 1]! - offsets[t]!) * DENSE_SHARE <= this.rows) continue;
      this.codeOffsets[t] = size;
      size += numbersPerTerm;
    }
    this.codes = new Uint32Array(size);
    for (let t = 0; t < this.terms; t++) if (this.codeOffsets[t]! >= 0) this.#writeCodes(t, this.codeOffsets[t]!);
  }

  /** Number of this shard's passages with the term. */
  passagesWith(term: number): number {
    return term < this.terms ? this.arrays.offsets[term + 1]! - this.arrays.offsets[term]! : 0;
  }

  /** Returns how often the term occurs in the passage, 0 to 255. */
  frequency(term: number, row: number): number {
    const { offsets, middles, frequencyOffsets, frequencies } = this.arrays;
    const codeOffset = this.codeOffsets[term]!;
    const middle = middles[term]!;
    if (codeOffset >= 0) {
      const code = (this.codes[codeOffset + (row >>> 4)]! >>> ((row & 15) << 1)) & 3;
      if (code < 3) return code;
    } else if (this.#find(row, middle, offsets[term + 1]!) >= 0) return 1;
    const at = this.#find(row, offsets[term]!, middle);
    return at < 0 ? 0 : frequencies[frequencyOffsets[term]! + at - offsets[term]!]!;
  }

  /** Index of the row in `[start, end)` of the postings, or -1. */
  #find(row: number, start: number, end: number): number {
    if (start === end) return -1;
    const { postings } = this.arrays;
    let at = start;
    for (let count = end - start; count > 1;) {
      const half = count >>> 1;
      // All ones if the upper half begins at or before the row, which avoids a branch.
      const mask = ~((row - (postings[at + half]! & ROW_MASK)) >> 31);
      at += half & mask;
      count -= half;
    }
    return (postings[at]! & ROW_MASK) === row ? at : -1;
  }

  #writeCodes(term: number, codeOffset: number): void {
    const { offsets, middles, frequencyOffsets, postings, frequencies } = this.arrays;
    const { codes } = this;
    const toFrequency = frequencyOffsets[term]! - offsets[term]!;
    const middle = middles[term]!;
    const end = offsets[term + 1]!;
    for (let p = offsets[term]!; p < end; p++) {
      const row = postings[p]! & ROW_MASK;
      const code = p >= middle ? 1 : frequencies[p + toFrequency] === 2 ? 2 : 3;
      codes[codeOffset + (row >>> 4)]! |= code << ((row & 15) << 1);
    }
  }
}

function shortestSingles({ offsets, middles, postings }: ShardArrays): Uint8Array {
  const shortest = new Uint8Array(middles.length).fill(255);
  for (let t = 0; t < shortest.length; t++) {
    let least = 255;
    const end = offsets[t + 1]!;
    for (let p = middles[t]!; p < end; p++) {
      const length = postings[p]! >>> 24;
      if (length < least) least = length;
    }
    shortest[t] = least;
  }
  return shortest;
}
