/** The rows of one pass: which are neighbours in a sequence, which share an adapter, which are wanted at the end. */
import type { AdapterWeights } from '../model/model-types.ts';

/** Rows of one sequence at consecutive positions. */
export interface PlannedSegment {
  /** Of the pass, its first. */
  readonly row: number;
  readonly count: number;
  /** Position of its first row. */
  readonly past: number;
  /** Address of its block numbers. */
  readonly table: number;
  /** The first of its rows whose output is wanted, from 0; `count` where none is. */
  readonly firstWanted: number;
}

/** Neighbouring rows of one adapter. Rows of the base are in no run. */
export interface AdapterRun {
  readonly adapter: AdapterWeights;
  readonly first: number;
  readonly count: number;
}

export interface RowPlan {
  readonly rows: number;
  /** How many blocks of the cache the way back gives room to; 0 where there is none. */
  readonly blocks: number;
  /** Address of int32 [rows]. */
  readonly positions: number;
  readonly segments: readonly PlannedSegment[];
  readonly runs: readonly AdapterRun[];
  /** Rows that go on after the last attention. [W] */
  readonly wanted: Int32Array;
  /** The runs of the wanted rows, counted among themselves. */
  readonly wantedRuns: readonly AdapterRun[];
}

/** Collects rows in order and joins neighbours of one adapter. */
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
