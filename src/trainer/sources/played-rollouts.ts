/**
 * The rollouts that a source was given by `play`, as they were then. Nothing is trained on that differs from what is on file: a source may rename and copy a
 * rollout, and give it a reward by `withReward`. Trajectories that `play` did not bring are the source's own: they are held to what a file of rollouts is held to.
 */
import { createHash } from 'node:crypto';
import { ownProblem } from './own-trajectory.ts';
import { paidReward, type Trajectory } from '../trajectory.ts';
import type { PhasePlan, TrajectoryBatch } from '../trajectory-source.ts';

/** What makes a rollout the same: its tokens, who wrote them, its texts, and how it ended. */
const SAME = [
  'ids',
  'targets',
  'logProbs',
  'versions',
  'promptLength',
  'branches',
  'images',
  'segments',
  'turns',
  'turnTokens',
  'turnRewards',
  'weights',
  'staleWeight',
  'stop',
  'isTruncated',
  'isCut',
  'error',
  'usage',
] as const satisfies readonly (keyof Trajectory)[];
type Same = (typeof SAME)[number];
/** Of them, those of which one says "differ". */
const PLURAL: readonly Same[] = [
  'ids',
  'targets',
  'branches',
  'logProbs',
  'versions',
  'images',
  'segments',
  'turns',
  'turnTokens',
  'turnRewards',
  'weights',
];

interface Played {
  readonly step: number;
  readonly phase: string | undefined;
  readonly recorded: Trajectory;
  /** Of `recorded` when it was played: a source could change it in place. */
  readonly reward: number | null;
  readonly metrics: string;
  readonly version: number;
  readonly values: Readonly<Record<Same, string>>;
  /** The reward that `withReward` gave it, in the step that played it. */
  paid?: number;
}

/** What became of the rollouts that a step played. */
interface Account {
  /** Of the batch, each rollout that was played once, and after them those that are in neither list. */
  readonly played: readonly Trajectory[];
  /** Of how many played ones how many are in neither list. */
  readonly total: number;
  readonly leftOut: number;
  /** The rewards that `withReward` gave, under the recorded names; a phase without any has an empty list. */
  readonly phases: readonly { readonly phase: string | undefined; readonly paid: readonly Trajectory[] }[];
}

export class PlayedRollouts {
  /** By each array that a copy shares with what `play` returned, however it is renamed. */
  readonly #byArray = new WeakMap<object, Played>();
  readonly #vocabularySize: number | null;
  /** Of the steps that are being taken. */
  readonly #bySteps = new Map<number, Played[]>();

  /** @param vocabularySize of the trained model; null if it is unknown */
  constructor(vocabularySize: number | null) {
    this.#vocabularySize = vocabularySize;
  }

  /** From now on, what the step plays is accounted for. */
  begin(step: number): void {
    this.#bySteps.set(step, []);
  }

  /** A source uses them in the step that plays, or later. */
  add({ step, phase }: Pick<PhasePlan, 'step' | 'phase'>, trajectories: readonly Trajectory[]): void {
    for (const recorded of trajectories) {
      const { reward, metrics, policy, ids, targets, logProbs } = recorded;
      const values = Object.fromEntries(SAME.map((name) => [name, printOf(recorded[name])])) as Record<Same, string>;
      const one = { step, phase, recorded: { ...recorded }, reward, metrics: JSON.stringify(metrics), version: policy.version, values };
      for (const array of [ids, targets, logProbs]) if (array !== null) this.#byArray.set(array, one);
      this.#bySteps.get(step)?.push(one);
    }
  }

  /** Describes the first trajectory that was changed to what nothing can have sampled; null if there is none. */
  unsampled(trajectories: readonly Trajectory[]): string | null {
    return firstOf(trajectories, (each) => {
      const values = this.#playedOf(each)?.values;
      return values !== undefined && SAME.every((name) => printOf(each[name]) === values[name]) ? null : ownProblem(each, this.#vocabularySize);
    });
  }

  /** The first rollout of the batch that differs from what was played, or that nothing can have sampled, described; without one, what became of the played ones. */
  account({ trajectories, discarded = [] }: TrajectoryBatch, step: number): Account | { readonly problem: string } {
    const ofStep = this.#bySteps.get(step) ?? [];
    this.#bySteps.delete(step);
    const byName = Map.groupBy(ofStep, ({ recorded }) => recorded.rolloutId);
    /** Of copies the first that `withReward` paid, else the first. */
    const found = new Map<object, Trajectory>();
    for (const each of [...trajectories, ...discarded]) {
      const shared = this.#playedOf(each);
      const candidates = shared === undefined ? (byName.get(each.rolloutId) ?? []) : [shared];
      const problems = candidates.map((played) => difference(each, played, step));
      const played = candidates[problems.indexOf(null)];
      const problem = played !== undefined ? null : (problems[0] ?? ownProblem(each, this.#vocabularySize));
      if (problem !== null) return { problem };
      const earlier = found.get(played ?? each);
      if (earlier === undefined || (paidReward(earlier) === undefined && paidReward(each) !== undefined)) found.set(played ?? each, each);
    }
    const left = ofStep.filter((played) => !found.has(played));
    const phases = [...Map.groupBy(ofStep, ({ phase }) => phase)].map(([phase, members]) => ({
      phase,
      paid: members.flatMap((played) => paidAs(played, found.get(played))),
    }));
    return { played: [...found.values(), ...left.map(({ recorded }) => recorded)], total: ofStep.length, leftOut: left.length, phases };
  }

  #playedOf({ ids, targets, logProbs }: Trajectory): Played | undefined {
    for (const array of [ids, targets, logProbs]) {
      const played = array === null ? undefined : this.#byArray.get(array);
      if (played !== undefined) return played;
    }
    return undefined;
  }
}

function firstOf<T>(items: readonly T[], problemOf: (item: T) => string | null): string | null {
  for (const item of items) {
    const problem = problemOf(item);
    if (problem !== null) return problem;
  }
  return null;
}

/** The played rollout with the reward that it was given, under its recorded name; none without one. */
function paidAs(played: Played, returned: Trajectory | undefined): Trajectory[] {
  const paid = returned && paidReward(returned);
  if (returned === undefined || paid === undefined) return [];
  played.paid = paid;
  return [{ ...played.recorded, reward: paid, metrics: returned.metrics }];
}

function difference(each: Trajectory, { reward, metrics, version, values, paid, ...played }: Played, step: number): string | null {
  const { rolloutId } = each;
  const given = paidReward(each);
  const changed = SAME.find((name) => printOf(each[name]) !== values[name]);
  if (changed !== undefined)
    return `${changed} of ${rolloutId} ${PLURAL.includes(changed) ? 'differ' : 'differs'} from what play returned. ${RENAME}`;
  if (each.policy.version !== version) return `policy.version of ${rolloutId} differs from what play returned. ${RENAME}`;
  if (each.reward !== (given ?? reward))
    return `the reward of ${rolloutId} is ${each.reward}, but ${given === undefined ? `play returned ${reward}` : `withReward gave it ${given}`}. To change it, return withReward(trajectory, reward)`;
  if (given === undefined && JSON.stringify(each.metrics) !== metrics)
    return `the metrics of ${rolloutId} differ from what play returned. To change them, return withReward(trajectory, reward, metrics)`;
  if (given !== undefined && played.step !== step && given !== paid)
    return `${rolloutId} was played in step ${played.step}, and ${paid === undefined ? 'had no reward of withReward there' : `withReward gave it ${paid} there`}. Give a rollout its reward in the step that plays it, where the run records it`;
  return null;
}

const RENAME =
  'A source may rename a rollout (rolloutId, groupId, index, role, task) and give it a reward by withReward, and change nothing else of it';

/** Equal for equal values. Large values are not kept. */
function printOf(value: Trajectory[Same]): string {
  if (ArrayBuffer.isView(value)) return digestOf(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  const text = JSON.stringify(value) ?? 'none';
  return text.length < 64 ? text : digestOf(text);
}

function digestOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('base64');
}
