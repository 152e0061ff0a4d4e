/** Vectors of token sequences, as Qwen3-Embedding makes them: the last token's hidden state after the last norm, before the head. */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { Segment } from './forward-types.ts';
import type { TransformerPass } from './transformer-pass.ts';

export class SequenceEmbedder {
  readonly #pass: TransformerPass;
  readonly #blocks: number;
  readonly #hidden: number;

  /** `blocks`: the number of blocks in the pass's cache, at least as many as its longest sequence needs. */
  constructor({ pass, blocks, hidden }: { readonly pass: TransformerPass; readonly blocks: number; readonly hidden: number }) {
    this.#pass = pass;
    this.#blocks = blocks;
    this.#hidden = hidden;
  }

  /** One vector [hidden] for each sequence, not scaled. As many sequences as fit share a pass; one longer than a pass takes several. */
  embed(sequences: readonly Int32Array[]): Float32Array[] {
    const { rows: mostRows } = this.#pass.limits;
    const vectors: Float32Array[] = [];
    let segments: Segment[] = [];
    let [rows, blocks] = [0, 0];
    const run = () => {
      vectors.push(...this.#run(segments));
      segments = [];
      [rows, blocks] = [0, 0];
    };
    for (const tokens of sequences) {
      const needed = Math.ceil(tokens.length / BLOCK_TOKENS);
      if (rows + tokens.length > mostRows || blocks + needed > this.#blocks) run();
      if (tokens.length > mostRows) {
        vectors.push(...this.#embedLong(tokens, needed));
        continue;
      }
      segments.push({ tokens, past: 0, blocks: range(blocks, needed), adapter: null, logits: 'last' });
      rows += tokens.length;
      blocks += needed;
    }
    run();
    return vectors;
  }

  #embedLong(tokens: Int32Array, needed: number): Float32Array[] {
    const { rows } = this.#pass.limits;
    const blocks = range(0, needed);
    for (let past = 0; ; past += rows) {
      const piece = tokens.subarray(past, past + rows);
      const isLast = past + piece.length === tokens.length;
      const vectors = this.#run([{ tokens: piece, past, blocks, adapter: null, logits: isLast ? 'last' : 'none' }]);
      if (isLast) return vectors;
    }
  }

  #run(segments: readonly Segment[]): Float32Array[] {
    const states = this.#pass.hiddenStates(segments);
    return Array.from({ length: states.length / this.#hidden }, (_, i) => states.slice(i * this.#hidden, (i + 1) * this.#hidden));
  }
}

function range(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => first + i);
}
