/**
 * CPython's `difflib.SequenceMatcher(None, a, b)`: the longest common block, then the same to its left and right (Ratcliff and Obershelp), with autojunk:
 * in a second text of 200 code points and more, code points that make up more than 1 % of it start no block. Works on code points, as Python does. Not
 * symmetric, as in Python. Memory is linear; time is quadratic at worst, so a decision about a threshold uses upper bounds if they suffice.
 */
import { codePoints } from './python-text.ts';

/** `a[aStart .. aStart + size]` equals `b[bStart .. bStart + size]`; positions count code points. */
export interface MatchingBlock {
  readonly aStart: number;
  readonly bStart: number;
  readonly size: number;
}

/** CPython: a second sequence of this length or longer has popular elements. */
const AUTOJUNK_LENGTH = 200;

/**
 * `SequenceMatcher(None, a, b).ratio()`: twice the number of matching code points, divided by the length of both; in [0, 1], 1 for two empty texts.
 * @example sequenceMatcherRatio('abcd', 'bcde') // 0.75
 */
export function sequenceMatcherRatio(a: string, b: string): number {
  const matcher = new Matcher(codePoints(a), codePoints(b));
  let matches = 0;
  matcher.walk((_aStart, _bStart, size) => {
    matches += size;
    return true;
  });
  return ratioOf(matches, matcher.length);
}

/**
 * `sequenceMatcherRatio(a, b) >= threshold`, exactly, but without computing the ratio if a bound decides: the lengths, then the numbers of each code point, then the
 * blocks found so far.
 * @param threshold in [0, 1]
 */
export function isRatioAtLeast(a: string, b: string, threshold: number): boolean {
  // A string of n UTF-16 units has n / 2 to n code points, which often decides without reading it.
  const [shorter, longer] = a.length < b.length ? [a, b] : [b, a];
  if (ratioOf(shorter.length, shorter.length + Math.ceil(longer.length / 2)) < threshold && longer.length / 2 >= shorter.length) return false;
  const [first, second] = [codePoints(a), codePoints(b)];
  const length = first.length + second.length;
  if (ratioOf(Math.min(first.length, second.length), length) < threshold) return false;
  if (ratioOf(commonElements(first, second), length) < threshold) return false;
  let matches = 0;
  let open = Math.min(first.length, second.length);
  new Matcher(first, second).walk((_aStart, _bStart, size, lost) => {
    matches += size;
    open -= lost;
    return ratioOf(matches, length) < threshold && ratioOf(open, length) >= threshold;
  });
  return ratioOf(matches, length) >= threshold;
}

/** `SequenceMatcher(None, a, b).get_matching_blocks()`: in order, adjacent ones joined, with an empty block at both ends of the texts as the last. */
export function matchingBlocks(a: string, b: string): MatchingBlock[] {
  const [first, second] = [codePoints(a), codePoints(b)];
  const found: MatchingBlock[] = [];
  new Matcher(first, second).walk((aStart, bStart, size) => {
    if (size > 0) found.push({ aStart, bStart, size });
    return true;
  });
  const blocks: MatchingBlock[] = [];
  for (const block of found.toSorted((x, y) => x.aStart - y.aStart)) {
    const last = blocks.at(-1);
    if (last && last.aStart + last.size === block.aStart && last.bStart + last.size === block.bStart)
      blocks[blocks.length - 1] = { ...last, size: last.size + block.size };
    else blocks.push(block);
  }
  return [...blocks, { aStart: first.length, bStart: second.length, size: 0 }];
}

function ratioOf(matches: number, length: number): number {
  return length === 0 ? 1 : (2 * matches) / length;
}

/** The number of code points that the two have in common, regardless of order: CPython's `quick_ratio`. */
function commonElements(a: Int32Array, b: Int32Array): number {
  const left = new ElementIds(b);
  const counts = new Int32Array(left.count);
  for (let j = 0; j < b.length; j++) counts[left.of(b[j]!)]!++;
  let common = 0;
  for (let i = 0; i < a.length; i++) {
    const id = left.of(a[i]!);
    if (id >= 0 && counts[id]!-- > 0) common++;
  }
  return common;
}

/** Numbers the distinct elements of a sequence from 0. */
class ElementIds {
  readonly #low = new Int32Array(256).fill(-1);
  readonly #high = new Map<number, number>();
  count = 0;

  constructor(elements: Int32Array) {
    for (let j = 0; j < elements.length; j++) {
      const element = elements[j]!;
      if (this.of(element) >= 0) continue;
      if (element < 256) this.#low[element] = this.count++;
      else this.#high.set(element, this.count++);
    }
  }

  /** -1 for an element that is not in the sequence. */
  of(element: number): number {
    return element < 256 ? this.#low[element]! : (this.#high.get(element) ?? -1);
  }
}

/**
 * Called for every region that was searched, with its longest block (size 0: none). `lost`: by how much the search lowered what the region could still
 * contribute, which was the shorter of its two sides. False ends the walk.
 */
type Visit = (aStart: number, bStart: number, size: number, lost: number) => boolean;

class Matcher {
  readonly length: number;
  readonly #a: Int32Array;
  readonly #b: Int32Array;
  /** Positions of element id in b, ascending: `#positions[#starts[id] .. #starts[id + 1]]`. Popular elements have none. */
  readonly #starts: Int32Array;
  readonly #positions: Int32Array;
  /** The element id of each position of a; -1 if b does not have it. */
  readonly #ids: Int32Array;
  /**
   * At j + 1, the length of the common block that ends at position j of b, plus the base of its row. Every row has a higher base than all values before
   * it, so that one array serves two rows and nothing has to be cleared.
   */
  readonly #ends: Float64Array;
  readonly #baseStep: number;
  #base = 0;

  constructor(a: Int32Array, b: Int32Array) {
    this.#a = a;
    this.#b = b;
    this.length = a.length + b.length;
    const ids = new ElementIds(b);
    const own = new Int32Array(b.length);
    const counts = new Int32Array(ids.count);
    for (let j = 0; j < b.length; j++) counts[(own[j] = ids.of(b[j]!))]!++;
    const popular = b.length >= AUTOJUNK_LENGTH ? Math.floor(b.length / 100) + 1 : Infinity;
    this.#starts = new Int32Array(ids.count + 1);
    for (let id = 0; id < ids.count; id++) this.#starts[id + 1] = this.#starts[id]! + (counts[id]! > popular ? 0 : counts[id]!);
    this.#positions = new Int32Array(this.#starts[ids.count]!);
    const next = this.#starts.slice(0, ids.count);
    for (let j = 0; j < b.length; j++) if (counts[own[j]!]! <= popular) this.#positions[next[own[j]!]!++] = j;
    this.#ids = a.map((element) => ids.of(element));
    this.#ends = new Float64Array(b.length + 1);
    this.#baseStep = Math.min(a.length, b.length) + 1;
  }

  /** Searches the whole, then the parts to the left and right of the block found, and so on. The order of regions is not that of the texts. */
  walk(visit: Visit): void {
    const regions = [0, this.#a.length, 0, this.#b.length];
    while (regions.length > 0) {
      const bEnd = regions.pop()!;
      const bStart = regions.pop()!;
      const aEnd = regions.pop()!;
      const aStart = regions.pop()!;
      const { i, j, size } = this.#longestBlock(aStart, aEnd, bStart, bEnd);
      let left = size;
      if (size > 0) {
        left += Math.min(i - aStart, j - bStart) + Math.min(aEnd - i, bEnd - j) - size;
        if (aStart < i && bStart < j) regions.push(aStart, i, bStart, j);
        if (i + size < aEnd && j + size < bEnd) regions.push(i + size, aEnd, j + size, bEnd);
      }
      if (!visit(i, j, size, Math.min(aEnd - aStart, bEnd - bStart) - left)) return;
    }
  }

  /** CPython's `find_longest_match`: among the longest blocks the one that starts first in a, then first in b. */
  #longestBlock(aStart: number, aEnd: number, bStart: number, bEnd: number): { i: number; j: number; size: number } {
    const [ids, ends, positions, starts, step] = [this.#ids, this.#ends, this.#positions, this.#starts, this.#baseStep];
    let [bestI, bestJ, best] = [aStart, bStart, 0];
    if (this.#base + (aEnd - aStart + 2) * step > Number.MAX_SAFE_INTEGER) {
      ends.fill(0);
      this.#base = 0;
    }
    let before = this.#base + step;
    for (let i = aStart; i < aEnd; i++) {
      const base = before + step;
      const id = ids[i]!;
      if (id >= 0) {
        const first = starts[id]!;
        // Downwards, so that the place before still holds the row before.
        for (let p = this.#firstAt(id, bEnd) - 1; p >= first; p--) {
          const j = positions[p]!;
          if (j < bStart) break;
          const end = ends[j]!;
          const length = end > before ? end - before + 1 : 1;
          ends[j + 1] = base + length;
          if (length > best || (length === best && i - length + 1 === bestI)) [bestI, bestJ, best] = [i - length + 1, j - length + 1, length];
        }
      }
      before = base;
    }
    this.#base = before;
    return this.#extended(bestI, bestJ, best, [aStart, aEnd, bStart, bEnd]);
  }

  /** Index of the first position of the element at or after `bound`. */
  #firstAt(id: number, bound: number): number {
    let low = this.#starts[id]!;
    let high = this.#starts[id + 1]!;
    if (high === low || this.#positions[high - 1]! < bound) return high;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#positions[middle]! < bound) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Popular elements start no block, but a block runs on through them. */
  #extended(
    bestI: number,
    bestJ: number,
    best: number,
    [aStart, aEnd, bStart, bEnd]: readonly [number, number, number, number],
  ): { i: number; j: number; size: number } {
    const [a, b] = [this.#a, this.#b];
    let [i, j, size] = [bestI, bestJ, best];
    while (i > aStart && j > bStart && a[i - 1] === b[j - 1]) {
      i--;
      j--;
      size++;
    }
    while (i + size < aEnd && j + size < bEnd && a[i + size] === b[j + size]) size++;
    return { i, j, size };
  }
}
