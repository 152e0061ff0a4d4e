/** Rollouts of the environment's training rows: the source of a plain run. With `rollouts.max_refills`, groups that teach nothing are replaced by others. */
import type { Row } from '../../core/dataset.ts';
import { byGroup } from '../credit.ts';
import { refillRows, rowsOfStep, stepsPerPass } from './rows-of-step.ts';
import { comparedRewards } from '../trajectory-branches.ts';
import type { Trajectory } from '../trajectory.ts';
import type { SourceContext, TrajectoryBatch, TrajectorySource } from '../trajectory-source.ts';

export class SampledSource implements TrajectorySource {
  readonly #context: Omit<SourceContext, 'store'>;

  /** Throws ConfigError if the environment has fewer training rows than a step needs. */
  constructor(context: Omit<SourceContext, 'store'>) {
    this.#context = context;
    stepsPerPass(context.environment.train, context.config.rollouts.examplesPerStep);
  }

  async take(step: number, signal: AbortSignal): Promise<TrajectoryBatch> {
    const { environment, config, play } = this.#context;
    const { examplesPerStep, maxRefills } = config.rollouts;
    const used = rowsOfStep(environment.train, examplesPerStep, config.seed, step);
    const first = await play({ step, rows: used }, signal);
    if (maxRefills === 0) return first;
    let groups = byGroup(first.trajectories);
    const discarded: Trajectory[] = [];
    let attempts = first.attempts ?? 0;
    let refilled = 0;
    for (let round = 1; round <= maxRefills; round++) {
      const count = groups.filter((group) => !isInformative(group)).length;
      const rows: Row[] = count === 0 ? [] : refillRows(environment.train, { used, count, seed: config.seed, step, round });
      if (rows.length === 0) break;
      used.push(...rows);
      const more = await play({ step, phase: `refill-${round}`, rows }, signal);
      attempts += more.attempts ?? 0;
      const [informative, rest] = split(byGroup(more.trajectories), isInformative);
      discarded.push(...rest.flat());
      refilled += informative.length;
      const waiting = informative.values();
      groups = groups.map((group) => {
        if (isInformative(group)) return group;
        const next = waiting.next();
        if (next.done === true) return group;
        discarded.push(...group);
        return next.value;
      });
    }
    return { trajectories: groups.flat(), discarded, attempts, values: { groups_refilled: refilled } };
  }

  needsPolicy(step: number): boolean {
    const { config, isRecorded } = this.#context;
    if (!isRecorded(step)) return true;
    // The number of rounds that the step had is known only when its rewards are read: only a last round, or a later step, shows that it was complete.
    return config.rollouts.maxRefills > 0 && !isRecorded(step, `refill-${config.rollouts.maxRefills}`) && !isRecorded(step + 1);
  }

  async saveState(): Promise<void> {}

  async loadState(): Promise<void> {}
}

/** True if a group has two finished rollouts with different rewards. */
export function isInformative(group: readonly Trajectory[]): boolean {
  return comparedRewards(group).some((rewards) => rewards.some((reward) => reward !== rewards[0]));
}

function split<T>(items: readonly T[], belongs: (item: T) => boolean): [T[], T[]] {
  return [items.filter(belongs), items.filter((item) => !belongs(item))];
}
