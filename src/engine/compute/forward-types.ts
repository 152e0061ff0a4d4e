/** The forward pass: it computes new tokens of some sequences on top of their cached ones. */
import type { AdapterWeights } from '../model/model-types.ts';

/** Consecutive new tokens of one sequence. */
export interface Segment {
  /** [n], n ≥ 1. */
  readonly tokens: Int32Array;
  /** Number of the sequence's positions that are already in the cache. */
  readonly past: number;
  /** Cache blocks of positions 0 … past + n - 1. [ceil((past + n) / 16)]. Sequences may share blocks that no segment of the pass writes to. */
  readonly blocks: Int32Array;
  /** Put segments of one adapter side by side in a pass, so that its matrices are read once. */
  readonly adapter: AdapterWeights | null;
  /** The tokens whose logits are returned. */
  readonly logits: 'last' | 'all' | 'none';
}

/** Rows of logits in the engine's memory. They are valid only during the call that receives them, which may overwrite them. */
export interface LogitRows {
  readonly pointer: number;
  /** Float32 numbers between rows; a multiple of 8, at least the vocabulary's size. */
  readonly stride: number;
  /** Index of the first row among all wanted rows of the pass, in the order of segments and tokens. */
  readonly first: number;
  readonly count: number;
}

export interface CacheRegion {
  readonly pointer: number;
  readonly blocks: number;
}

export interface ForwardLimits {
  /** Maximum of new tokens in one pass. */
  readonly rows: number;
  /** Rows of logits computed at once. */
  readonly logitRows: number;
  /** Longest sequence, in tokens. @default the model's own */
  readonly positions?: number;
}

export interface ForwardPass {
  readonly limits: ForwardLimits;
  /** Runs the pass; `consume` gets the wanted logits, at temperature 1, in chunks of at most `limits.logitRows`. Throws RangeError for an invalid segment. */
  run(segments: readonly Segment[], consume: (logits: LogitRows) => void): void;
}
