/**
 * Finds the exact best passages of one shard without scoring most of them (MaxScore over two-tier lists). It adds lists to upper bounds of scores,
 * first those that lower the bound of the unread lists the most per posting, and now and then scores the passages with the best sums exactly. Once
 * no unmet passage can reach the k-th best score, it adds the remaining lists to the met passages only, and scores the survivors exactly. A passage
 * is dropped only if its bound is strictly below the threshold, so ties are decided by the row alone.
 */
import { type DropRule, ScoreBounds } from './score-bounds.ts';
import type { Shard } from './shard.ts';
import type { Similarity } from './similarity.ts';
import type { TopHits } from './top-hits.ts';

/** Bounds are scaled so that a query's bounds sum to this, well within 32-bit integers. */
const SCALE = 2 ** 29;
/** Larger than every sum of bounds, so that no passage of the shard can enter. */
const UNREACHABLE = 2 ** 30;
/** A term score in 32-bit arithmetic differs from the real number by less than this share of the term's weight. */
const ROUNDING = 8 * 2 ** -24;
/** Postings to read before the best sums are first scored; afterwards whenever the number has doubled. */
const FIRST_REFRESH = 32;
/** A list is scanned instead of searched if it has fewer postings than this times the number of survivors. */
const WALK_FACTOR = 8;

/** The part of a term's list that has been added: nothing, the first tier, everything. */
const UNREAD = 0;
const REPEATS_READ = 1;
const READ = 2;

/** One term of a query in one shard. */
interface Term {
  readonly id: number;
  /** Count in the query times idf, rounded to 32 bits. */
  readonly weight: number;
  readonly scaledWeight: number;
  readonly repeats: number;
  readonly singles: number;
  /** The most that a posting of any tier adds to a bound, and that a posting of the second tier adds; the latter is also the first tier's credit. */
  readonly bound: number;
  readonly singleBound: number;
  state: typeof UNREAD | typeof REPEATS_READ | typeof READ;
}

export class ShardSearch {
  readonly #shard: Shard;
  readonly #similarity: Similarity;
  readonly #bounds: ScoreBounds;
  /** Largest saturation in each term's first tier, computed on first use; -1 until then. [terms] */
  readonly #repeatSaturations: Float32Array;
  #terms: Term[] = [];
  /** The most that the unread lists can add to a bound. */
  #toCome = 0;
  /** The threshold that a bound must reach. */
  #needed = -1;
  #scale = 1;
  #roundingError = 0;

  constructor(shard: Shard, similarity: Similarity) {
    this.#shard = shard;
    this.#similarity = similarity;
    this.#bounds = new ScoreBounds(shard, similarity.saturations);
    this.#repeatSaturations = new Float32Array(shard.terms).fill(-1);
  }

  /** Offers the shard's best passages to `hits`, with `firstRow` added to their rows. `ids` and `weights` are parallel. */
  search(ids: readonly number[], weights: readonly number[], firstRow: number, hits: TopHits): void {
    if (!this.#begin(ids, weights, hits)) return;
    this.#readLists(firstRow, hits);
    this.#scoreBest(firstRow, hits);
    const survivors = this.#finishSurvivors(hits.capacity);
    const { sums, met } = this.#bounds;
    for (let i = 0; i < survivors; i++) {
      const row = met[i]!;
      if (sums[row]! + this.#toCome >= this.#needed) this.#offer(row, firstRow, hits);
      sums[row] = 0;
    }
  }

  #begin(ids: readonly number[], weights: readonly number[], hits: TopHits): boolean {
    const { offsets, middles } = this.#shard.arrays;
    const { saturations } = this.#similarity;
    let total = 0;
    let totalWeight = 0;
    const found: { id: number; weight: number; single: number; any: number }[] = [];
    for (const [i, id] of ids.entries()) {
      if (this.#shard.passagesWith(id) === 0) continue;
      const weight = weights[i]!;
      const single = middles[id]! < offsets[id + 1]! ? saturations[256 | this.#shard.shortestSingles[id]!]! : 0;
      const any = Math.max(single, this.#repeatSaturation(id));
      found.push({ id, weight, single, any });
      total += weight * any;
      totalWeight += weight;
    }
    this.#scale = SCALE / Math.max(total, 1e-30);
    this.#roundingError = ROUNDING * totalWeight;
    this.#terms = found.map(({ id, weight, single, any }) => {
      const scaledWeight = weight * this.#scale;
      return {
        id,
        weight,
        scaledWeight,
        repeats: middles[id]! - offsets[id]!,
        singles: offsets[id + 1]! - middles[id]!,
        bound: (scaledWeight * any + 1) | 0,
        singleBound: single > 0 ? (scaledWeight * single + 1) | 0 : 0,
        state: UNREAD,
      };
    });
    this.#toCome = this.#terms.reduce((sum, term) => sum + term.bound, 0);
    this.#bounds.reset(hits.capacity);
    this.#needed = this.#threshold(hits);
    return found.length > 0;
  }

  /** Adds lists until no unmet passage can reach the threshold. */
  #readLists(firstRow: number, hits: TopHits): void {
    let postings = 0;
    let refreshAt = FIRST_REFRESH;
    for (;;) {
      if (postings >= refreshAt) {
        this.#scoreBest(firstRow, hits);
        refreshAt = 2 * postings;
      }
      if (this.#toCome < this.#needed) return;
      const term = this.#nextTerm();
      if (term === null) return;
      postings += term.state === UNREAD ? term.repeats : term.singles;
      this.#readTier(term);
    }
  }

  /** The term whose next tier lowers the bound of the unread lists the most per posting. */
  #nextTerm(): Term | null {
    let best: Term | null = null;
    let bestRate = -1;
    for (const term of this.#terms) {
      if (term.state === READ) continue;
      const rate =
        term.state === REPEATS_READ
          ? term.singleBound / (term.singles + 1)
          : Math.max((term.bound - term.singleBound) / (term.repeats + 1), term.bound / (term.repeats + term.singles + 1));
      if (rate > bestRate) {
        bestRate = rate;
        best = term;
      }
    }
    return best;
  }

  #readTier(term: Term): void {
    const { id, scaledWeight, singleBound } = term;
    const isUnread = term.state === UNREAD;
    this.#toCome -= isUnread ? term.bound - singleBound : singleBound;
    const rule = this.#dropRule(term);
    term.state = isUnread ? REPEATS_READ : READ;
    if (rule === null) {
      if (isUnread) this.#bounds.addRepeats(id, scaledWeight, singleBound);
      else this.#bounds.addSingles(id, scaledWeight, singleBound);
    } else if (isUnread) this.#bounds.addRepeatsFiltered(id, scaledWeight, singleBound, rule);
    else this.#bounds.addSinglesFiltered(id, scaledWeight, singleBound, rule);
  }

  /** A rule from the one or two frequent unread terms with the largest bounds, except `reading`; null if it could drop nothing. */
  #dropRule(reading: Term): DropRule | null {
    if (this.#needed <= 0) return null;
    let first: Term | null = null;
    let second: Term | null = null;
    for (const term of this.#terms) {
      if (term === reading || term.state === READ || this.#shard.codeOffsets[term.id]! < 0) continue;
      if (first === null || remaining(term) > remaining(first)) {
        second = first;
        first = term;
      } else if (second === null || remaining(term) > remaining(second)) second = term;
    }
    if (first === null) return null;
    const firstBound = remaining(first);
    const secondBound = second === null ? 0 : remaining(second);
    const least = this.#needed - this.#toCome;
    if (reading.singleBound - firstBound - secondBound >= least) return null;
    const firstCodes = this.#shard.codeOffsets[first.id]!;
    return { least, firstBound, firstCodes, secondBound, secondCodes: second === null ? firstCodes : this.#shard.codeOffsets[second.id]! };
  }

  /** Scores the passages with the best sums, which raises the threshold. */
  #scoreBest(firstRow: number, hits: TopHits): void {
    const { bestRows, bestIsScored, bestCount } = this.#bounds;
    for (let i = 0; i < bestCount; i++) {
      if (bestIsScored[i] === 1) continue;
      bestIsScored[i] = 1;
      this.#offer(bestRows[i]!, firstRow, hits);
    }
  }

  #offer(row: number, firstRow: number, hits: TopHits): void {
    if (hits.has(firstRow + row)) return;
    const lengthByte = this.#shard.arrays.lengths[row]!;
    let score = 0;
    for (const { id, weight } of this.#terms) {
      const frequency = this.#shard.frequency(id, row);
      if (frequency > 0) score += this.#similarity.termScore(weight, frequency, lengthByte);
    }
    hits.offer(firstRow + row, Math.fround(score));
    this.#needed = this.#threshold(hits);
  }

  #threshold(hits: TopHits): number {
    const floor = hits.floor;
    return floor < 0 ? -1 : Math.max(-1, Math.min(UNREACHABLE, Math.floor((floor - this.#roundingError) * this.#scale)));
  }

  /**
   * Adds the unread lists to the met passages, the largest bounds first, and drops passages that fall below the threshold. Returns how many of
   * `bounds.met` are left; the sums of all others are reset to 0.
   */
  #finishSurvivors(topk: number): number {
    const pending = this.#terms.filter((term) => term.state !== READ).toSorted((a, b) => remaining(b) - remaining(a));
    let survivors = this.#bounds.metCount;
    for (const [i, term] of pending.entries()) {
      if (survivors <= topk) break;
      const before = this.#toCome;
      this.#toCome -= remaining(term);
      if (this.#shard.codeOffsets[term.id]! >= 0) survivors = this.#addByCodes(term, survivors);
      else {
        if (i === 0) survivors = this.#bounds.dropBelow(this.#needed - before, survivors);
        if (term.repeats + term.singles < WALK_FACTOR * survivors) {
          this.#bounds.addToMet(term.id, term.scaledWeight, term.singleBound, term.state === UNREAD);
          survivors = this.#bounds.dropBelow(this.#needed - this.#toCome, survivors);
        } else survivors = this.#addBySearch(term, survivors);
      }
    }
    return survivors;
  }

  #addByCodes(term: Term, survivors: number): number {
    const { sums, met } = this.#bounds;
    const { codes } = this.#shard;
    const { lengths } = this.#shard.arrays;
    const { scaledWeight, singleBound } = term;
    const isUnread = term.state === UNREAD;
    const gains = this.#bounds.gains(scaledWeight, isUnread ? null : singleBound, isUnread ? term.bound : singleBound);
    const offset = this.#shard.codeOffsets[term.id]!;
    const last = (this.#needed - this.#toCome - 1) | 0;
    let kept = 0;
    for (let i = 0; i < survivors; i++) {
      const row = met[i]!;
      const code = (codes[offset + (row >>> 4)]! >>> ((row & 15) << 1)) & 3;
      const sum = sums[row]! + gains[(code << 8) | lengths[row]!]!;
      const keep = (last - sum) >> 31;
      sums[row] = sum & keep;
      met[kept] = row;
      kept -= keep;
    }
    return kept;
  }

  #addBySearch(term: Term, survivors: number): number {
    const { sums, met } = this.#bounds;
    const { lengths } = this.#shard.arrays;
    const { saturations } = this.#similarity;
    const isUnread = term.state === UNREAD;
    const last = (this.#needed - this.#toCome - 1) | 0;
    let kept = 0;
    for (let i = 0; i < survivors; i++) {
      const row = met[i]!;
      const frequency = this.#shard.frequency(term.id, row);
      let gain = 0;
      if (frequency > 1 && !isUnread) gain = term.singleBound;
      else if (frequency > 0) gain = (term.scaledWeight * saturations[(frequency << 8) | lengths[row]!]! + 1) | 0;
      const sum = sums[row]! + gain;
      const keep = (last - sum) >> 31;
      sums[row] = sum & keep;
      met[kept] = row;
      kept -= keep;
    }
    return kept;
  }

  #repeatSaturation(term: number): number {
    const known = this.#repeatSaturations[term]!;
    if (known >= 0) return known;
    const { offsets, middles, frequencyOffsets, postings, frequencies } = this.#shard.arrays;
    const { saturations } = this.#similarity;
    const toFrequency = frequencyOffsets[term]! - offsets[term]!;
    let most = 0;
    for (let p = offsets[term]!; p < middles[term]!; p++) {
      most = Math.max(most, saturations[(frequencies[p + toFrequency]! << 8) | (postings[p]! >>> 24)]!);
    }
    this.#repeatSaturations[term] = most;
    return most;
  }
}

/** The most that the unread part of a term's list adds to a bound. */
function remaining(term: Term): number {
  return term.state === UNREAD ? term.bound : term.state === REPEATS_READ ? term.singleBound : 0;
}
