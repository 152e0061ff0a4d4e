/**
 * Lucene's BM25Similarity, exact to the last bit: idf, length norm and term score are rounded to 32 bits at the points where Lucene rounds them; a passage's score
 * is the 64-bit sum of its term scores, rounded once. (Since version 8 Lucene omits the factor k1 + 1 of the original formula.)
 */
import { decodeLength } from './field-length.ts';

const { fround } = Math;
/** Saturations by frequency << 8 | length byte. */
const TABLE_SIZE = 256 * 256;

/** Weight of a term before its count in the query: log(1 + (N - n + 0.5) / (n + 0.5)). */
export function inverseDocumentFrequency(rowsWithTerms: number, passagesWithTerm: number): number {
  return fround(Math.log(1 + (rowsWithTerms - passagesWithTerm + 0.5) / (passagesWithTerm + 0.5)));
}

export class Similarity {
  readonly k1: number;
  readonly b: number;
  /** 1 / (k1 * (1 - b + b * length / averageLength)) by length byte. [256] */
  readonly #inverseNorms = new Float32Array(256);
  /** The share of its weight that a term scores, by frequency << 8 | length byte. Used for bounds, accurate to 2^-22. [65,536] */
  readonly saturations = new Float32Array(TABLE_SIZE);

  /** `averageLength`: mean number of terms in passages that have any. */
  constructor(k1: number, b: number, averageLength: number) {
    this.k1 = k1;
    this.b = b;
    const k = fround(k1);
    const slope = fround(b);
    const average = fround(averageLength);
    for (let byte = 0; byte < 256; byte++) {
      const relative = fround(fround(slope * fround(decodeLength(byte))) / average);
      this.#inverseNorms[byte] = 1 / fround(k * fround(fround(1 - slope) + relative));
    }
    for (let frequency = 1; frequency < 256; frequency++) {
      for (let byte = 0; byte < 256; byte++) {
        const odds = frequency * this.#inverseNorms[byte]!;
        this.saturations[(frequency << 8) | byte] = odds === Infinity ? 1 : odds / (1 + odds);
      }
    }
  }

  /** Score of one term that occurs `frequency` (>= 1) times in a passage. */
  termScore(weight: number, frequency: number, lengthByte: number): number {
    return fround(weight - fround(weight / fround(1 + fround(frequency * this.#inverseNorms[lengthByte]!))));
  }
}
