/**
 * Running upper bounds of passages' scores. They are integers, so the order of additions does not matter, and a sum above 0 marks a passage as met
 * (found in a list). Met passages and the few best sums are recorded separately. Queries spend most of their time in these loops, which avoid
 * branches that depend on the data: for x < 0, `x >> 31` is all ones and `x >>> 31` is 1.
 */
import { ROW_MASK, type Shard } from './shard.ts';

/** Minimum of best sums to keep; their exact scores give the threshold for the rest. */
const MIN_BEST = 5;

/** Lets a scan drop a newly met passage that lacks frequent terms which it would need. */
export interface DropRule {
  /** The least value that a sum must reach, counting the two terms below. */
  readonly least: number;
  readonly firstBound: number;
  readonly firstCodes: number;
  readonly secondBound: number;
  readonly secondCodes: number;
}

export class ScoreBounds {
  /** Sum of each row; 0 if the row is not met. [rows] */
  readonly sums: Int32Array;
  /** The `metCount` met rows. [rows + 1] */
  readonly met: Int32Array;
  metCount = 0;
  /** The `bestCount` rows with the best sums, best first, and whether the search has scored them. */
  bestRows = new Int32Array(MIN_BEST);
  bestIsScored = new Uint8Array(MIN_BEST);
  bestCount = 0;
  #bestSums = new Int32Array(MIN_BEST);
  /** A sum must exceed this to enter the list of the best. */
  #cut = 0;
  /** Gain by code << 8 | length byte; always 0 for code 0. */
  readonly #gains = new Int32Array(4 << 8);
  readonly #shard: Shard;
  readonly #saturations: Float32Array;

  constructor(shard: Shard, saturations: Float32Array) {
    this.#shard = shard;
    this.#saturations = saturations;
    this.sums = new Int32Array(shard.rows);
    this.met = new Int32Array(shard.rows + 1);
  }

  /** Begins a query for the `topk` best. The previous query must have reset all `sums` to 0. */
  reset(topk: number): void {
    const best = Math.max(MIN_BEST, topk);
    if (this.bestRows.length !== best) {
      this.bestRows = new Int32Array(best);
      this.bestIsScored = new Uint8Array(best);
      this.#bestSums = new Int32Array(best);
    }
    this.metCount = 0;
    this.bestCount = 0;
    this.#cut = 0;
  }

  /** Gains of a term by code and length: 0, once, twice (exact by length unless `twice` is given), `more`. Valid until the next call. */
  gains(weight: number, twice: number | null, more: number): Int32Array {
    const gains = this.#singleGains(weight);
    const saturations = this.#saturations;
    const { shortest, longest } = this.#shard;
    if (twice === null) for (let byte = shortest; byte <= longest; byte++) gains[512 | byte] = weight * saturations[512 | byte]! + 1;
    else gains.fill(twice, 512 | shortest, (512 | longest) + 1);
    gains.fill(more, 768 | shortest, (768 | longest) + 1);
    return gains;
  }

  /** Fills only the second quarter of `gains`. */
  #singleGains(weight: number): Int32Array {
    const gains = this.#gains;
    const saturations = this.#saturations;
    const { longest } = this.#shard;
    for (let byte = this.#shard.shortest; byte <= longest; byte++) gains[256 | byte] = weight * saturations[256 | byte]! + 1;
    return gains;
  }

  /** Adds a term's first tier minus the credit, which remains in the bound of unread lists until the second tier is added. */
  addRepeats(term: number, weight: number, credit: number): void {
    const { offsets, middles, frequencyOffsets, postings, frequencies } = this.#shard.arrays;
    const { sums, met } = this;
    const saturations = this.#saturations;
    const toFrequency = frequencyOffsets[term]! - offsets[term]!;
    const end = middles[term]!;
    let count = this.metCount;
    let cut = this.#cut;
    for (let p = offsets[term]!; p < end; p++) {
      const posting = postings[p]!;
      const row = posting & ROW_MASK;
      const gain = (weight * saturations[(frequencies[p + toFrequency]! << 8) | (posting >>> 24)]! - credit) | 0;
      const before = sums[row]!;
      const sum = before + 1 + (gain & ~(gain >> 31));
      sums[row] = sum;
      met[count] = row;
      count += (before - 1) >>> 31;
      if (sum > cut) cut = this.#keepBest(row, sum);
    }
    this.metCount = count;
    this.#cut = cut;
  }

  /** Adds a term's second tier, and the credit to the passages of its first tier. */
  addSingles(term: number, weight: number, credit: number): void {
    const { offsets, middles, postings } = this.#shard.arrays;
    const { sums, met } = this;
    const gains = this.#singleGains(weight);
    const middle = middles[term]!;
    const end = offsets[term + 1]!;
    let count = this.metCount;
    let cut = this.#cut;
    this.#addCredit(offsets[term]!, middle, credit);
    for (let p = middle; p < end; p++) {
      const posting = postings[p]!;
      const row = posting & ROW_MASK;
      const before = sums[row]!;
      const sum = before + gains[256 | (posting >>> 24)]!;
      sums[row] = sum;
      met[count] = row;
      count += (before - 1) >>> 31;
      if (sum > cut) cut = this.#keepBest(row, sum);
    }
    this.metCount = count;
    this.#cut = cut;
  }

  /** Like `addRepeats`, but drops passages by the rule. */
  addRepeatsFiltered(term: number, weight: number, credit: number, rule: DropRule): void {
    const { offsets, middles, frequencyOffsets, postings, frequencies } = this.#shard.arrays;
    const { codes } = this.#shard;
    const { sums, met } = this;
    // "| 0" tells the compiler once that these are 32-bit integers, not at every posting.
    const least = rule.least | 0;
    const firstBound = rule.firstBound | 0;
    const secondBound = rule.secondBound | 0;
    const firstCodes = rule.firstCodes | 0;
    const secondCodes = rule.secondCodes | 0;
    const saturations = this.#saturations;
    const toFrequency = frequencyOffsets[term]! - offsets[term]!;
    const end = middles[term]!;
    let count = this.metCount;
    let cut = this.#cut;
    for (let p = offsets[term]!; p < end; p++) {
      const posting = postings[p]!;
      const row = posting & ROW_MASK;
      const gain = (weight * saturations[(frequencies[p + toFrequency]! << 8) | (posting >>> 24)]! - credit) | 0;
      const before = sums[row]!;
      const added = 1 + (gain & ~(gain >> 31));
      const word = row >>> 4;
      const bit = (row & 15) << 1;
      const first = codes[firstCodes + word]! >>> bit;
      const second = codes[secondCodes + word]! >>> bit;
      // All ones (-1) if the passage lacks the term, which subtracts the term's bound.
      const hope = added - (firstBound & (((first | (first >>> 1)) & 1) - 1)) - (secondBound & (((second | (second >>> 1)) & 1) - 1));
      const isNew = (before - 1) >> 31;
      const keep = ~(isNew & ((hope - least) >> 31));
      const sum = (before + added) & keep;
      sums[row] = sum;
      met[count] = row;
      count -= isNew & keep;
      if (sum > cut) cut = this.#keepBest(row, sum);
    }
    this.metCount = count;
    this.#cut = cut;
  }

  /** Like `addSingles`, but drops passages by the rule. */
  addSinglesFiltered(term: number, weight: number, credit: number, rule: DropRule): void {
    const { offsets, middles, postings } = this.#shard.arrays;
    const { codes } = this.#shard;
    const { sums, met } = this;
    // "| 0" tells the compiler once that these are 32-bit integers, not at every posting.
    const least = rule.least | 0;
    const firstBound = rule.firstBound | 0;
    const secondBound = rule.secondBound | 0;
    const firstCodes = rule.firstCodes | 0;
    const secondCodes = rule.secondCodes | 0;
    const gains = this.#singleGains(weight);
    const middle = middles[term]!;
    const end = offsets[term + 1]!;
    let count = this.metCount;
    let cut = this.#cut;
    this.#addCredit(offsets[term]!, middle, credit);
    for (let p = middle; p < end; p++) {
      const posting = postings[p]!;
      const row = posting & ROW_MASK;
      const before = sums[row]!;
      const added = gains[256 | (posting >>> 24)]!;
      const word = row >>> 4;
      const bit = (row & 15) << 1;
      const first = codes[firstCodes + word]! >>> bit;
      const second = codes[secondCodes + word]! >>> bit;
      const hope = added - (firstBound & (((first | (first >>> 1)) & 1) - 1)) - (secondBound & (((second | (second >>> 1)) & 1) - 1));
      const isNew = (before - 1) >> 31;
      const keep = ~(isNew & ((hope - least) >> 31));
      const sum = (before + added) & keep;
      sums[row] = sum;
      met[count] = row;
      count -= isNew & keep;
      if (sum > cut) cut = this.#keepBest(row, sum);
    }
    this.metCount = count;
    this.#cut = cut;
  }

  /** Adds the unread part of a term to the met passages: both tiers, or the second and the first one's credit. */
  addToMet(term: number, weight: number, credit: number, isUnread: boolean): void {
    const { offsets, middles, frequencyOffsets, postings, frequencies } = this.#shard.arrays;
    const { sums } = this;
    const saturations = this.#saturations;
    const start = offsets[term]!;
    const middle = middles[term]!;
    const end = offsets[term + 1]!;
    const gains = this.#singleGains(weight);
    if (isUnread) {
      const toFrequency = frequencyOffsets[term]! - start;
      for (let p = start; p < middle; p++) {
        const posting = postings[p]!;
        const row = posting & ROW_MASK;
        const sum = sums[row]!;
        const gain = (weight * saturations[(frequencies[p + toFrequency]! << 8) | (posting >>> 24)]! + 1) | 0;
        sums[row] = sum + (gain & (-sum >> 31));
      }
    } else this.#addCredit(start, middle, credit);
    for (let p = middle; p < end; p++) {
      const posting = postings[p]!;
      const row = posting & ROW_MASK;
      const sum = sums[row]!;
      sums[row] = sum + (gains[256 | (posting >>> 24)]! & (-sum >> 31));
    }
  }

  /** Among the first `count` rows of `met`, drops those whose sum is below `least`. Moves the others to the front and returns their number. */
  dropBelow(least: number, count: number): number {
    const { sums, met } = this;
    const last = (least - 1) | 0;
    let kept = 0;
    for (let i = 0; i < count; i++) {
      const row = met[i]!;
      const sum = sums[row]!;
      const keep = (last - sum) >> 31;
      sums[row] = sum & keep;
      met[kept] = row;
      kept -= keep;
    }
    return kept;
  }

  #addCredit(start: number, end: number, points: number): void {
    const credit = points | 0;
    const { postings } = this.#shard.arrays;
    const { sums } = this;
    for (let p = start; p < end; p++) {
      const row = postings[p]! & ROW_MASK;
      const sum = sums[row]!;
      sums[row] = sum + (credit & (-sum >> 31));
    }
  }

  /** Inserts a sum into the list of the best, replacing the row's older one; returns the new cut. */
  #keepBest(row: number, sum: number): number {
    const { bestRows, bestIsScored } = this;
    const bestSums = this.#bestSums;
    const count = this.bestCount;
    let at = 0;
    while (at < count && bestRows[at] !== row) at++;
    const isScored = at < count ? bestIsScored[at]! : 0;
    if (at === count) {
      if (count < bestRows.length) this.bestCount = count + 1;
      else at--;
    }
    while (at > 0 && bestSums[at - 1]! < sum) {
      bestSums[at] = bestSums[at - 1]!;
      bestRows[at] = bestRows[at - 1]!;
      bestIsScored[at] = bestIsScored[at - 1]!;
      at--;
    }
    bestSums[at] = sum;
    bestRows[at] = row;
    bestIsScored[at] = isScored;
    return this.bestCount < bestRows.length ? 0 : bestSums[bestRows.length - 1]!;
  }
}
