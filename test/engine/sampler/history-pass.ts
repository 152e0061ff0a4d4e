/**
 * A forward pass whose logits are a hash of all tokens so far. It reads those tokens back through the blocks it is given, and throws where a block
 * holds something else, where a segment writes what another one uses, or where segments of one adapter lie apart: so it shows whether the tables
 * of blocks are right, which a model cannot.
 */
import type { ForwardLimits, ForwardPass, LogitRows, Segment } from '../../../src/engine/compute/forward-types.ts';
import type { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { BLOCK_TOKENS } from '../../../src/engine/kernels/kernels.ts';

interface Written {
  readonly token: number;
  readonly position: number;
  readonly adapter: number;
}

/** What a pass computed for one request. */
export interface SeenSegment {
  readonly adapter: number;
  readonly past: number;
  readonly count: number;
  readonly logits: Segment['logits'];
}

export class HistoryPass implements ForwardPass {
  readonly limits: ForwardLimits;
  readonly #memory: SharedMemory;
  readonly #logits: number;
  readonly #stride: number;
  readonly #cache: (Written | null)[];
  readonly passes: SeenSegment[][] = [];
  /** A sequence with this token has logits that are not finite. */
  poison = -1;
  /** The next pass throws. */
  breaks = false;

  constructor(options: { readonly memory: SharedMemory; readonly limits: ForwardLimits; readonly blocks: number; readonly vocabularySize: number }) {
    this.limits = options.limits;
    this.#memory = options.memory;
    // Wider than need be, with numbers there that count for nothing.
    this.#stride = Math.ceil(options.vocabularySize / 8) * 8 + 8;
    this.#logits = options.memory.allocate(options.limits.logitRows * this.#stride * 4).pointer;
    this.#cache = Array.from({ length: options.blocks * BLOCK_TOKENS }, () => null);
  }

  /** Tokens that were computed in all passes. */
  get computed(): number {
    return this.passes.flat().reduce((sum, { count }) => sum + count, 0);
  }

  run(segments: readonly Segment[], consume: (logits: LogitRows) => void): void {
    this.passes.push(segments.map(({ adapter, past, tokens, logits }) => ({ adapter: adapter?.id ?? 0, past, count: tokens.length, logits })));
    check(segments.reduce((sum, { tokens }) => sum + tokens.length, 0) <= this.limits.rows, 'more rows than the limit');
    this.#checkOrder(segments);
    this.#checkWrites(segments);
    for (const segment of segments) this.#write(segment);
    if (this.breaks) {
      this.breaks = false;
      throw new Error('the pass broke');
    }
    const rows = segments.flatMap((segment) => this.#wanted(segment));
    for (let first = 0; first < rows.length; first += this.limits.logitRows) {
      const chunk = rows.slice(first, first + this.limits.logitRows);
      for (const [i, row] of chunk.entries()) new Float32Array(this.#memory.memory.buffer).set(row, this.#logits / 4 + i * this.#stride);
      consume({ pointer: this.#logits, stride: this.#stride, first, count: chunk.length });
    }
  }

  /** The logits after these tokens, without any cache. */
  logitsAfter(adapter: number, tokens: readonly number[]): Float32Array {
    let hash = adapter + 1;
    for (const token of tokens) hash = Math.imul(hash ^ (token + 1), 0x9e3779b1) ^ (hash >>> 15);
    return Float32Array.from({ length: this.#stride }, (_, id) => {
      if (tokens.includes(this.poison)) return NaN;
      const h = Math.imul((hash ^ Math.imul(id + 1, 0x85ebca6b)) >>> 0, 0x21f0aaad);
      return (((h ^ (h >>> 15)) >>> 0) / 2 ** 32) * 6 - 3;
    });
  }

  #checkOrder(segments: readonly Segment[]): void {
    const seen = new Set<number>();
    let last = -1;
    for (const { adapter } of segments) {
      const id = adapter?.id ?? 0;
      check(id === last || !seen.has(id), `the segments of adapter ${id} lie apart`);
      seen.add(id);
      last = id;
    }
  }

  /** What one segment writes no other may use. */
  #checkWrites(segments: readonly Segment[]): void {
    const users = new Map<number, number>();
    for (const [i, { past, tokens, blocks }] of segments.entries()) {
      check(tokens.length > 0 && blocks.length === Math.ceil((past + tokens.length) / BLOCK_TOKENS), 'a table of another length than its positions');
      for (let block = Math.floor(past / BLOCK_TOKENS); block < blocks.length; block++) users.set(blocks[block]!, i);
    }
    for (const [i, { blocks }] of segments.entries())
      for (const block of blocks) check((users.get(block) ?? i) === i, `block ${block} is written and shared`);
  }

  #write({ tokens, past, blocks, adapter }: Segment): void {
    for (const [i, token] of tokens.entries()) {
      const position = past + i;
      this.#cache[blocks[Math.floor(position / BLOCK_TOKENS)]! * BLOCK_TOKENS + (position % BLOCK_TOKENS)] = {
        token,
        position,
        adapter: adapter?.id ?? 0,
      };
    }
  }

  #wanted({ tokens, past, blocks, adapter, logits }: Segment): Float32Array[] {
    const history: number[] = [];
    const rows: Float32Array[] = [];
    const end = past + tokens.length;
    for (let position = 0; position < end; position++) {
      const slot = blocks[Math.floor(position / BLOCK_TOKENS)]! * BLOCK_TOKENS + (position % BLOCK_TOKENS);
      const written = this.#cache[slot];
      check(written?.position === position && written.adapter === (adapter?.id ?? 0), `position ${position} was written by another request`);
      history.push(written!.token);
      const isWanted = logits === 'all' ? position >= past : logits === 'last' && position === end - 1;
      if (isWanted) rows.push(this.logitsAfter(adapter?.id ?? 0, history));
    }
    return rows;
  }
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`expected a pass that can be, got ${what}`);
}
