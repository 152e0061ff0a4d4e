/** The list of runs, as the page of `vf-view` reads it: the part of view-wire.ts that the other answers build on. */

export type RunKind = 'evaluation' | 'training';

export interface Estimate {
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly n: number;
}

/** `GET api/runs`. */
export interface RunList {
  /** The folder that was searched, under the command's name for it. */
  readonly root: string;
  readonly runs: readonly RunLine[];
  /** Folders below the root that could not be searched, one line each: runs in them are not listed. */
  readonly unread: readonly string[];
}

export interface RunLine {
  /** Its folder relative to the root, with `/`; `.` for the root itself. */
  readonly id: string;
  readonly kind: RunKind;
  /** The name that it was given; null if it has none, or only that of environment and model. */
  readonly name: string | null;
  /** The settings that tell it from the others of the list with its kind, environment and name: `lr 1e-4, seed 2`; empty if none do. */
  readonly differs: string;
  readonly environment: string;
  readonly model: string;
  readonly started_at: string | null;
  readonly updated_at: string | null;
  /** `running`: not complete, and a living process holds the folder. */
  readonly state: 'complete' | 'running' | 'stopped';
  /** Rollouts of an evaluation, steps of a training run: done, and planned. */
  readonly done: number;
  readonly planned: number | null;
  /** Rollouts of an evaluation that failed, which `done` counts too; 0 for a training run. */
  readonly failed: number;
  /** Mean reward of an evaluation; the last held-out mean of a training run. */
  readonly reward: Estimate | null;
  /** US dollars that an evaluation has cost; null if its models are free, their prices are unknown, and for a training run. */
  readonly cost: number | null;
  /** Held-out means of a training run by step, for a sparkline; empty for an evaluation. */
  readonly curve: readonly { readonly step: number; readonly value: number }[];
  /** What is wrong with its files, a sentence for each damaged one: `line 3 of …`. Those of a training's rollouts once its page was opened. */
  readonly problems: readonly string[];
}
