/** The rows of one pass: which of them belong to one sequence, which share an adapter, and of which the output is wanted. */
import type { AdapterWeights } from '../model/model-types.ts';

/** Rows of one sequence at consecutive positions. */
export interface PlannedSegment {
  /** Index of its first row in the pass. */
  readonly row: number;
  readonly count: number;
  /** Position of its first row. */
  readonly past: number;
  /** Address of its block numbers. */
  readonly table: number;
  /** Index, from 0, of its first row whose output is wanted; `count` if there is none. */
  readonly firstWanted: number;
}

/** Adjacent rows of one adapter. Rows of the base model belong to no run. */
export interface AdapterRun {
  readonly adapter: AdapterWeights;
  readonly first: number;
  readonly count: number;
}

export interface RowPlan {
  readonly rows: number;
  /** Cache blocks of the backward pass; 0 if there is none. */
  readonly blocks: number;
  /** Address of int32 [rows]. */
  readonly positions: number;
  readonly segments: readonly PlannedSegment[];
  readonly runs: readonly AdapterRun[];
  /** Rows to compute after the last attention. [W] */
  readonly wanted: Int32Array;
  /** The runs of the wanted rows, as indexes into `wanted`. */
  readonly wantedRuns: readonly AdapterRun[];
}

/** Collects rows in order and joins adjacent rows of one adapter. */
export class AdapterRuns {
  readonly runs: AdapterRun[] = [];
  #rows = 0;

  add(adapter: AdapterWeights | null, count: number): void {
    const last = this.runs.at(-1);
    if (adapter !== null && count > 0) {
      if (last !== undefined && last.adapter.id === adapter.id && last.first + last.count === this.#rows) {
        this.runs[this.runs.length - 1] = { adapter, first: last.first, count: last.count + count };
      } else this.runs.push({ adapter, first: this.#rows, count });
    }
    this.#rows += count;
  }
}
