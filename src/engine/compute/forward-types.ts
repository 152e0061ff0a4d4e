/** What one forward pass computes: new tokens of some sequences, on top of what the cache holds of them. Sampling and training run the same pass. */
import type { AdapterWeights } from '../model/model-types.ts';

/** Consecutive new tokens of one sequence. */
export interface Segment {
  /** [n], n ≥ 1. */
  readonly tokens: Int32Array;
  /** Positions of the sequence that are in the cache already. */
  readonly past: number;
  /** Blocks of the cache that hold positions 0 … past + n - 1. [ceil((past + n) / 16)]. Sequences may share blocks that no segment of the pass writes to. */
  readonly blocks: Int32Array;
  /** Segments of one adapter lie side by side in a pass, so that its matrices are gone through once. */
  readonly adapter: AdapterWeights | null;
  /** Of which tokens the logits are wanted: the last alone, all, or none. */
  readonly logits: 'last' | 'all' | 'none';
}

/** Rows of logits in the engine's memory, until the call that hands them out returns. They may be overwritten. */
export interface LogitRows {
  readonly pointer: number;
  /** Float32 numbers between rows; a multiple of 8, at least the vocabulary's size. */
  readonly stride: number;
  /** Counted over all wanted rows of the pass, in the order of segments and tokens. */
  readonly first: number;
  readonly count: number;
}

export interface CacheRegion {
  readonly pointer: number;
  readonly blocks: number;
}

export interface ForwardLimits {
  /** Most new tokens of one pass. */
  readonly rows: number;
  /** Rows of logits that are computed at once. */
  readonly logitRows: number;
  /** Longest sequence, in tokens. @default the model's own */
  readonly positions?: number;
}

export interface ForwardPass {
  readonly limits: ForwardLimits;
  /** Runs the pass; `consume` gets the wanted logits, at temperature 1, in one or more chunks of at most `limits.logitRows`. Throws RangeError for a segment that cannot be. */
  run(segments: readonly Segment[], consume: (logits: LogitRows) => void): void;
}
