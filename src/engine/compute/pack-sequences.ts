/**
 * Packs the sequences of a training batch into rows that are computed once: sequences share the 16-token blocks of a common prefix, as in the sampler's cache.
 * A sequence is computed up to the position before its last target, because nothing after it affects the result.
 */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { SequenceBatch } from './training-types.ts';

/** A sequence's own rows, which follow the blocks that it shares with earlier sequences. */
interface PackedSegment {
  readonly row: number;
  readonly count: number;
  /** Position of its first row, a multiple of 16. */
  readonly past: number;
  /** Index of its first token in `ids`. */
  readonly start: number;
  /** Block numbers of positions 0 … past + count - 1. */
  readonly blocks: Int32Array;
}

export interface PackedSequences {
  readonly rows: number;
  readonly blocks: number;
  readonly segments: readonly PackedSegment[];
  /** The row that predicts each target. A row that several sequences share can appear more than once. [M] */
  readonly wanted: Int32Array;
  /** Number of positions of the longest sequence. */
  readonly longest: number;
}

/** A full block that later sequences may share. */
interface SharedBlock {
  readonly number: number;
  /** Index of its tokens in `ids`. */
  readonly start: number;
  readonly row: number;
  readonly next: SharedBlock[];
}

/** Throws RangeError for invalid offsets or targets. */
export function packSequences({ ids, offsets, targets }: SequenceBatch): PackedSequences {
  const packing = new Packing(ids);
  const wanted = new Int32Array(targets.length);
  let target = 0;
  for (let sequence = 0; sequence + 1 < offsets.length; sequence++) {
    const [start, end] = [offsets[sequence]!, offsets[sequence + 1]!];
    if (!(start >= 0 && start <= end && end <= ids.length))
      throw new RangeError(`expected ascending offsets up to ${ids.length}, got ${start}, ${end}`);
    const first = target;
    for (; target < targets.length && targets[target]! < end; target++) {
      const before = target === first ? start : targets[target - 1]!;
      if (!(targets[target]! > before)) throw new RangeError(`expected ascending targets after the first token at ${start}, got ${targets[target]}`);
    }
    if (target === first) continue;
    const rowOf = packing.add(start, targets[target - 1]! - start);
    for (let i = first; i < target; i++) wanted[i] = rowOf(targets[i]! - 1 - start);
  }
  if (target < targets.length) throw new RangeError(`expected targets below ${offsets.at(-1)}, got ${targets[target]}`);
  return { rows: packing.rows, blocks: packing.blocks, segments: packing.segments, wanted, longest: packing.longest };
}

class Packing {
  rows = 0;
  blocks = 0;
  longest = 0;
  readonly segments: PackedSegment[] = [];
  readonly #ids: Int32Array;
  readonly #roots: SharedBlock[] = [];

  constructor(ids: Int32Array) {
    this.#ids = ids;
  }

  /** Adds the sequence of `count` tokens at `start`; the returned function maps a position to its row. */
  add(start: number, count: number): (position: number) => number {
    this.longest = Math.max(this.longest, count);
    const path: SharedBlock[] = [];
    const wholeBlocks = Math.floor(count / BLOCK_TOKENS);
    let siblings = this.#roots;
    while (path.length < wholeBlocks) {
      const known = siblings.find((block) => this.#isSame(block.start, start + path.length * BLOCK_TOKENS));
      if (known === undefined) break;
      path.push(known);
      siblings = known.next;
    }
    const shared = path.length * BLOCK_TOKENS;
    if (shared < count) this.#addSegment(path, siblings, start, count);
    const tail = this.rows - count;
    return (position) => (position < shared ? path[Math.floor(position / BLOCK_TOKENS)]!.row + (position % BLOCK_TOKENS) : tail + position);
  }

  #addSegment(path: readonly SharedBlock[], known: SharedBlock[], start: number, count: number): void {
    const past = path.length * BLOCK_TOKENS;
    const blocks = new Int32Array(Math.ceil(count / BLOCK_TOKENS));
    for (const [i, { number }] of path.entries()) blocks[i] = number;
    let siblings = known;
    for (let i = path.length; i < blocks.length; i++) {
      const position = i * BLOCK_TOKENS;
      const block = { number: this.blocks++, start: start + position, row: this.rows + position - past, next: [] };
      blocks[i] = block.number;
      if (position + BLOCK_TOKENS > count) break;
      siblings.push(block);
      siblings = block.next;
    }
    this.segments.push({ row: this.rows, count: count - past, past, start: start + past, blocks });
    this.rows += count - past;
  }

  #isSame(a: number, b: number): boolean {
    for (let i = 0; i < BLOCK_TOKENS; i++) if (this.#ids[a + i] !== this.#ids[b + i]) return false;
    return true;
  }
}
