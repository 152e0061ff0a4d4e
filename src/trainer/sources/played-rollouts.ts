/**
 * The rollouts that a source was given by `play`, as they were then. Nothing is trained on that differs from what is on file: a source may rename and copy a
 * rollout, and give it a reward by `withReward`. Trajectories that `play` did not bring are the source's own: they are held to what a file of rollouts is held to.
 */
import { createHash } from 'node:crypto';
import { ownProblem } from './own-trajectory.ts';
import { paidReward, type Trajectory } from '../trajectory.ts';
import type { PhasePlan, TrajectoryBatch } from '../trajectory-source.ts';

/** What makes a rollout the same: its tokens, who wrote them, and how it ended. */
const SAME = [
  'ids',
  'targets',
  'logProbs',
  'versions',
  'promptLength',
  'turnTokens',
  'turnRewards',
  'weights',
  'staleWeight',
  'isTruncated',
] as const satisfies readonly (keyof Trajectory)[];
type Same = (typeof SAME)[number];

interface Played {
  readonly step: number;
  readonly phase: string | undefined;
  readonly isPaidLater: boolean;
  readonly recorded: Trajectory;
  /** Of `recorded` when it was played: a source could change it in place. */
  readonly reward: number | null;
  readonly metrics: string;
  readonly error: string;
  readonly version: number;
  readonly values: Readonly<Record<Same, string>>;
}

export class PlayedRollouts {
  /** By each array that a copy shares with what `play` returned, however it is renamed. */
  readonly #byArray = new WeakMap<object, Played>();
  readonly #vocabularySize: number | null;
  /** Of the steps that are being taken, for copies that share no array. */
  readonly #bySteps = new Map<number, Played[]>();

  /** @param vocabularySize of the trained model; null if it is unknown */
  constructor(vocabularySize: number | null) {
    this.#vocabularySize = vocabularySize;
  }

  /** A source uses them in the step that plays, or later. */
  add({ step, phase, isPaidLater = false }: PhasePlan, { trajectories }: TrajectoryBatch): void {
    const played = trajectories.map((recorded): Played => {
      const { reward, metrics, error, policy, ids, targets, logProbs } = recorded;
      const values = Object.fromEntries(SAME.map((name) => [name, printOf(recorded[name])])) as Record<Same, string>;
      const one = {
        step,
        phase,
        isPaidLater,
        recorded: { ...recorded },
        reward,
        metrics: JSON.stringify(metrics),
        error: JSON.stringify(error),
        version: policy.version,
        values,
      };
      for (const array of [ids, targets, logProbs]) if (array !== null) this.#byArray.set(array, one);
      return one;
    });
    this.#bySteps.set(step, [...(this.#bySteps.get(step) ?? []), ...played]);
  }

  /** Describes the first rollout of the step that differs from what was played, or that nothing can have sampled; null if there is none. */
  problemOf({ trajectories, discarded = [] }: TrajectoryBatch, step: number): string | null {
    const ofStep = Map.groupBy(this.#bySteps.get(step) ?? [], ({ recorded }) => recorded.rolloutId);
    this.#bySteps.delete(step);
    for (const each of [...trajectories, ...discarded]) {
      const own = this.#playedOf(each);
      const candidates = own === undefined ? (ofStep.get(each.rolloutId) ?? []) : [own];
      if (candidates.length === 0) {
        const problem = ownProblem(each, this.#vocabularySize);
        if (problem !== null) return problem;
      }
      const problems = candidates.map((played) => difference(each, played));
      if (problems.length > 0 && !problems.includes(null)) return problems[0]!;
    }
    return null;
  }

  /** Those that are paid later and have a reward now, by phase, under their recorded names. */
  paidIn({ trajectories, discarded = [] }: TrajectoryBatch): { readonly phase: string | undefined; readonly paid: readonly Trajectory[] }[] {
    const paid = [...trajectories, ...discarded].flatMap((each) => {
      const played = this.#playedOf(each);
      const { reward, metrics } = each;
      return played?.isPaidLater !== true || reward === null ? [] : [{ phase: played.phase, paid: { ...played.recorded, reward, metrics } }];
    });
    return [...Map.groupBy(paid, ({ phase }) => phase)].map(([phase, members]) => ({ phase, paid: members.map((each) => each.paid) }));
  }

  #playedOf({ ids, targets, logProbs }: Trajectory): Played | undefined {
    for (const array of [ids, targets, logProbs]) {
      const played = array === null ? undefined : this.#byArray.get(array);
      if (played !== undefined) return played;
    }
    return undefined;
  }
}

function difference(each: Trajectory, { reward, metrics, error, version, values }: Played): string | null {
  const { rolloutId } = each;
  const given = paidReward(each);
  const changed = SAME.find((name) => printOf(each[name]) !== values[name]);
  if (changed !== undefined)
    return `${changed} of ${rolloutId} differ${changed === 'promptLength' || changed === 'isTruncated' || changed === 'staleWeight' ? 's' : ''} from what play returned. ${RENAME}`;
  if (JSON.stringify(each.error) !== error) return `the error of ${rolloutId} differs from what play returned. ${RENAME}`;
  if (each.policy.version !== version) return `policy.version of ${rolloutId} differs from what play returned. ${RENAME}`;
  if (each.reward !== (given ?? reward))
    return `the reward of ${rolloutId} is ${each.reward}, but ${given === undefined ? `play returned ${reward}` : `withReward gave it ${given}`}. To change it, return withReward(trajectory, reward)`;
  if (given === undefined && JSON.stringify(each.metrics) !== metrics)
    return `the metrics of ${rolloutId} differ from what play returned. To change them, return withReward(trajectory, reward, metrics)`;
  return null;
}

const RENAME = 'A source may rename a rollout (rolloutId, groupId, role, task) and give it a reward by withReward, and change nothing else of it';

/** Equal for equal values. Large arrays are not kept. */
function printOf(value: Trajectory[Same]): string {
  if (!ArrayBuffer.isView(value)) return JSON.stringify(value) ?? 'none';
  return createHash('sha256')
    .update(new Uint8Array(value.buffer, value.byteOffset, value.byteLength))
    .digest('base64');
}
