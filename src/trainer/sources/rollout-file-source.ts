/**
 * Rollouts that another program sampled, in the form of `vf-export`, from a file or a stream: the run samples nothing. The rollouts of a step are recorded before
 * they are trained on, so that a resumed run repeats its steps even if the stream cannot be read again.
 */
import { cancelled, untilAborted } from '../../core/abort.ts';
import { countText } from '../../core/count-text.ts';
import { TrainingError } from '../../core/errors.ts';
import { SOURCE_PREFIX } from '../records/metrics.ts';
import type { Trajectory } from '../trajectory.ts';
import type { RolloutStore, TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';
import { type LeftOut, leftOutText, rolloutGroups, type RolloutGroupsOptions } from './rollout-groups.ts';

export interface RolloutFileOptions extends RolloutGroupsOptions {
  /** A resumed run gets the lines of its earlier steps again, as from a file, and reads past them; a stream goes on from its current place. */
  readonly startsOver: boolean;
  /** Steps before the first on rollouts: supervised ones take nothing from here. */
  readonly stepsBefore: number;
  /** Groups of a step. */
  readonly groupsPerStep: number;
  readonly store: Pick<RolloutStore, 'open'>;
  /** Gets a line about the first rollout that is left out for each reason. */
  readonly onLeftOut: (message: string) => void;
}

export class RolloutFileSource implements TrajectorySource {
  readonly #options: RolloutFileOptions;
  #groups: AsyncGenerator<readonly Trajectory[], void> | null = null;
  /** Groups read so far. */
  #read = 0;
  /** The next group is awaited. */
  #isReading = false;
  /** Rollouts left out so far. */
  #leftOut = 0;
  readonly #reasons = new Set<LeftOut>();

  constructor(options: RolloutFileOptions) {
    this.#options = options;
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const { store, groupsPerStep, stepsBefore, name, startsOver } = this.#options;
    await using record = await store.open(step);
    if (record.isComplete) return { trajectories: record.recorded };
    this.#groups ??= rolloutGroups(this.#options, (place, tokens, why) => this.#leaveOut(place, tokens, why));
    const earlier = startsOver ? (step - 1 - stepsBefore) * groupsPerStep : 0;
    const known = new Set(record.recorded.map(({ rolloutId }) => rolloutId));
    // A file can be read again; a stream cannot.
    const names = namesIn(startsOver ? [] : record.recorded);
    const before = this.#leftOut;
    while (names.groups.size < groupsPerStep) {
      const next = await untilAborted(this.#nextGroup(this.#groups), signal, () =>
        cancelled(signal, `Stopped while ${name} was read for step ${step}`),
      );
      if (next.done === true) {
        throw new TrainingError(
          `${name} ended before step ${step} had its groups of rollouts (${groupsPerStep}; it has ${this.#read} in all${leftOutText(this.#leftOut)}); lower --steps, or give more rollouts and continue with -R`,
        );
      }
      if (++this.#read <= earlier) continue;
      for (const trajectory of withNamesOfItsOwn(next.value, names)) if (!known.has(trajectory.rolloutId)) record.add(trajectory);
    }
    await record.complete(1);
    const leftOut = this.#leftOut - before;
    return { trajectories: record.recorded, ...(leftOut > 0 ? { values: { [`${SOURCE_PREFIX}left_out`]: leftOut } } : {}) };
  }

  needsPolicy(): boolean {
    return false;
  }

  /** Closes the file. A stream that is still awaited ends with the process. */
  async close(): Promise<void> {
    if (!this.#isReading) await this.#groups?.return();
  }

  async #nextGroup(groups: AsyncGenerator<readonly Trajectory[], void>): Promise<IteratorResult<readonly Trajectory[], void>> {
    this.#isReading = true;
    const next = await groups.next();
    this.#isReading = false;
    return next;
  }

  #leaveOut(place: string, tokens: number, why: LeftOut): void {
    const { longest, onLeftOut } = this.#options;
    this.#leftOut++;
    if (this.#reasons.has(why)) return;
    this.#reasons.add(why);
    const what =
      why === 'long'
        ? `has ${countText(tokens)} tokens: rollouts longer than the model's window of ${countText(longest)}`
        : 'was never played (prompt_too_long, and no token of the policy): such rollouts, whose reward says nothing,';
    onLeftOut(`${place} ${what} are left out, and counted as ${SOURCE_PREFIX}left_out`);
  }

  async saveState(): Promise<void> {}

  async loadState(): Promise<void> {}
}

interface Names {
  readonly groups: Set<string>;
  readonly rollouts: Set<string>;
}

function namesIn(trajectories: readonly Trajectory[]): Names {
  return { groups: new Set(trajectories.map(({ groupId }) => groupId)), rollouts: new Set(trajectories.map(({ rolloutId }) => rolloutId)) };
}

/** A row that was played twice has its names twice in a step, but on file a name stands for one rollout, and rollouts are compared within a group. */
function withNamesOfItsOwn(group: readonly Trajectory[], { groups, rollouts }: Names): Trajectory[] {
  const groupId = unused(group[0]!.groupId, groups);
  return group.map((trajectory) => ({ ...trajectory, groupId, rolloutId: unused(trajectory.rolloutId, rollouts) }));
}

function unused(name: string, used: Set<string>): string {
  let own = name;
  for (let n = 2; used.has(own); n++) own = `${name}#${n}`;
  used.add(own);
  return own;
}
