/** The groups of one step of a stream, on file, and which of them the step trains on. */
import { byGroup } from '../credit.ts';
import type { RolloutStore, RecordedRollout, StepRollouts } from '../trajectory-source.ts';
import { isInformative } from './sampled-source.ts';
import { isUnplayed, type Trajectory } from '../trajectory.ts';

type Group = readonly Trajectory[];

export interface StepGroupsOptions {
  readonly step: number;
  readonly examplesPerStep: number;
  readonly rolloutsPerExample: number;
  readonly maxRefills: number;
  readonly maxStaleness: number;
  /** Number of rows of the data set: a step takes at most one group of each. */
  readonly rows: number;
  readonly staleGroups: 'drop' | 'weight';
  /** The number of updates by which the version that sampled is behind the one that is trained. */
  readonly age: (sampled: number, trained: number) => number;
}

/** The groups on file, divided by what becomes of them. */
export interface DividedGroups {
  readonly taken: readonly Group[];
  /** Dropped, because they are too old. */
  readonly dropped: readonly Group[];
  /** Not taken, because all rewards are equal. */
  readonly refused: readonly Group[];
  /** Number of groups taken although they are too old. */
  readonly weighted: number;
  /** Age of the oldest group taken. */
  readonly staleness: number;
}

export class StepGroups implements AsyncDisposable {
  readonly #options: StepGroupsOptions;
  readonly #record: StepRollouts;
  #groups: readonly Group[];
  #attempts: number;
  /** Rollouts of an earlier process that were not played: the window may have grown since. */
  readonly #outdated: ReadonlySet<Trajectory>;

  private constructor(options: StepGroupsOptions, record: StepRollouts) {
    this.#options = options;
    this.#record = record;
    this.#outdated = new Set(record.isComplete ? [] : record.recorded.filter(isUnplayed));
    this.#groups = this.#whole();
    this.#attempts = Math.max(1, record.attempts);
  }

  static async open(store: RolloutStore, options: StepGroupsOptions): Promise<StepGroups> {
    return new StepGroups(options, await store.open(options.step));
  }

  get groupIds(): readonly string[] {
    return this.#groups.map((group) => group[0]!.groupId);
  }

  get isComplete(): boolean {
    return this.#record.isComplete;
  }

  get attempts(): number {
    return this.isComplete ? this.#record.attempts : this.#attempts;
  }

  get failed(): number {
    return this.#groups.flat().filter(({ error }) => error !== null).length;
  }

  /** True if the step has a group of the row that is not too old for this version. A group that is too old gives way to another. */
  has(groupId: string, version: number): boolean {
    const { taken, refused } = this.divide(version);
    return [...taken, ...refused].some((group) => group[0]!.groupId === groupId);
  }

  /** The number of groups that the step still needs if it trains this version. */
  missing(version: number): number {
    return this.isComplete ? 0 : this.#options.examplesPerStep - this.divide(version).taken.length;
  }

  /** All of it is in the file when this returns. */
  add(rollouts: Iterable<RecordedRollout>, attempts: number): void {
    for (const { trajectory, asked, trace } of rollouts) this.#record.add(trajectory, asked, trace);
    this.#attempts = Math.max(this.#attempts, attempts);
    this.#groups = this.#whole();
  }

  /**
   * In the order of the file, which is the order in which the groups ended. Groups with equal rewards are refused until a step has refused `max_refills` times its
   * size; then it takes them too, as it does when the data have no further rows. A step that was complete before keeps its number of groups even if the
   * configuration has changed since.
   */
  divide(version: number): DividedGroups {
    const { examplesPerStep, maxRefills, maxStaleness, staleGroups, rows } = this.#options;
    const mostRefused = Math.min(maxRefills * examplesPerStep, rows - examplesPerStep);
    const trained = this.#record.version ?? version;
    const taken: Group[] = [];
    const dropped: Group[] = [];
    const refused: Group[] = [];
    let weighted = 0;
    // A failed rollout may have no version.
    const ageOf = (group: Group) =>
      group.reduce((age, each) => (each.reward === null ? age : Math.max(age, this.#options.age(each.policy.version, trained))), 0);
    for (const group of this.#groups) {
      const age = ageOf(group);
      const isStale = age > maxStaleness;
      if (isStale && staleGroups === 'drop') dropped.push(group);
      else if (taken.length === examplesPerStep || (refused.length < mostRefused && !isInformative(group))) refused.push(group);
      else {
        taken.push(isStale ? group.map((each) => ({ ...each, staleWeight: maxStaleness / age })) : group);
        weighted += Number(isStale);
      }
    }
    while (this.isComplete && taken.length < examplesPerStep && refused.length + dropped.length > 0)
      taken.push((refused.shift() ?? dropped.shift())!);
    return { taken, dropped, refused, weighted, staleness: taken.reduce((most, group) => Math.max(most, ageOf(group)), 0) };
  }

  /** The step trains this version. */
  async complete(version: number): Promise<void> {
    if (!this.isComplete) await this.#record.complete(this.#attempts, version);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#record[Symbol.asyncDispose]();
  }

  /** Excludes a group that a killed process wrote only in part. */
  #whole(): readonly Group[] {
    const current = this.#record.recorded.filter((trajectory) => !this.#outdated.has(trajectory));
    return byGroup(current).filter((group) => group.length === this.#options.rolloutsPerExample);
  }
}
