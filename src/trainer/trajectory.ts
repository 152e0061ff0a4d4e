/** A rollout or a demonstration reduced to what training needs: tokens, who wrote them, the sampler's log-probs, and the reward or weights. */
import { RewardError, TrainingError } from '../core/errors.ts';
import type { Fork } from '../agents/fork.ts';
import type { PlacedImage } from '../core/message.ts';
import type { TextSegment } from '../core/rubric.ts';
import type { TokenSegment } from '../core/token-buffer.ts';
import { ONLY_ROLE, reasonOf } from '../rollouts/rollout-columns.ts';
import { type Rollout, type RolloutError, type RolloutFacts, UNPLAYED } from '../rollouts/rollout.ts';
import { turnsOfGenerations } from '../rollouts/turns-of-generations.ts';
import type { WireTurns } from '../schemas/turn-columns.ts';

/** The role of a trajectory if an environment has only one speaker. */
export const POLICY_ROLE = ONLY_ROLE;

/**
 * `policy.version` is the smallest if several versions sampled it. `isCut` is set only on a failed one: a finished one never becomes a trajectory. A
 * demonstration, such as a row of a supervised data set, has neither a reward nor an error; nor has a trajectory that gets its reward later.
 */
export interface Trajectory extends RolloutFacts {
  /** The role that wrote the targets: `policy`, unless a source plays several roles. */
  readonly role: string;
  /** A phase may be absent. */
  readonly error: (Pick<RolloutError, 'type' | 'message' | 'retryable' | 'source' | 'reason'> & Partial<Pick<RolloutError, 'phase'>>) | null;
  /** The whole sequence, prompt first; with several branches, their sequences one after another. [T]; T may be 0 for a failed rollout. */
  readonly ids: Int32Array;
  /** The sequences among the ids, in order, if there are several, or if the only one has a role or a reward of its own. @default one, which is the whole */
  readonly branches?: readonly TrajectoryBranch[];
  readonly promptLength: number;
  /** Indices in `ids` of the tokens that the policy sampled, ascending. [M]; M may be 0. */
  readonly targets: Int32Array;
  /** Natural-log probability of each target under the sampler. [M]; null if they are unknown, as for demonstrations. A token whose own is not finite is left out of updates that need it. */
  readonly logProbs: Float64Array | null;
  /** Weight of each target in the loss, for demonstrations. [M], none is 0. @default 1 */
  readonly weights?: Float64Array;
  /** Factor of its advantages, because it is older than `max_staleness`. @default 1 */
  readonly staleWeight?: number;
  /** It has no reward yet: `withReward` gives it one. It neither failed nor is it a demonstration. @default false */
  readonly isUnpaid?: true;
  /** The version that sampled each target, only if they differ. [M] */
  readonly versions?: Int32Array;
  /** Number of sampled tokens of each turn. [turns], M in all. @default each stretch of targets without other tokens between them is one */
  readonly turnTokens?: readonly number[];
  /** What the environment said that each turn was worth by itself; null where it said nothing. [turns] @default nothing for any turn */
  readonly turnRewards?: readonly (number | null)[];
  /** The images among the ids, in order. Their bytes are in the run's folder of images. @default none */
  readonly images?: readonly PlacedImage[];
  readonly segments: readonly TextSegment[];
}

/** A branch of a rollout among the ids of its trajectory. Its targets, log-probs and turns are those that lie in it. */
export interface TrajectoryBranch {
  /** Its ids are [start, end) of the trajectory's. */
  readonly start: number;
  readonly end: number;
  /** Number of ids before its first own turn, with those of other branches' turns. */
  readonly promptLength: number;
  /** The index of the branch that it left, a smaller one; null if it shares no turn of the policy with another. */
  readonly parent: number | null;
  /** Where and why its messages left those of another. @default not known, or it is the first */
  readonly fork?: Fork;
  /** Its part of the trajectory's segments. @default not known */
  readonly segments?: number;
  /** @default the trajectory's */
  readonly role?: string;
  /** @default the trajectory's */
  readonly reward?: number;
  /** The policy wrote its last turn of the rollout in it, although others come after it. @default it did in the last branch */
  readonly endsLast?: true;
}

/**
 * Throws TrainingError for a finished rollout without tokens or with a cut context: the run's setup then allows no training at all. A failed rollout
 * always becomes a trajectory, so that it is counted.
 */
export function trajectoryOf(rollout: Rollout, role = rollout.role ?? POLICY_ROLE): Trajectory & { readonly logProbs: Float64Array } {
  const { rolloutId, groupId, index, task, branches, error, stop, isTruncated, isCut, turns, usage } = rollout;
  const { version, ...sampled } = sampledTokens(rollout);
  if (error === null && branches.every(({ tokens }) => tokens === null)) {
    throw new TrainingError(
      `Rollout ${rolloutId} has no token ids and log-probs; train with a policy client that samples by token ids (vLLM's /v1/completions)`,
    );
  }
  if (error === null && isCut) {
    throw new TrainingError(
      `The context of rollout ${rolloutId} was cut, so it cannot be trained on; set overlong = "stop" for training ("upstream" is only for evaluation)`,
    );
  }
  return {
    rolloutId,
    groupId,
    index,
    role,
    task,
    // + 0 turns -0, which JSON does not preserve, into 0.
    reward: rollout.reward === null ? null : rollout.reward + 0,
    metrics: Object.fromEntries(Object.entries(rollout.metrics).map(([name, value]) => [name, value + 0])),
    error: error && {
      type: error.type,
      message: error.message,
      retryable: error.retryable,
      source: error.source,
      phase: error.phase,
      ...reasonOf(error),
    },
    stop,
    isTruncated,
    isCut,
    turns,
    policy: { model: rollout.policy.model, version },
    usage,
    ...sampled,
    ...turnsOnFile(turnsOfGenerations(rollout.generations, sampled.targets)),
    segments: rollout.segments.map(({ kind, text }) => ({ kind, text })),
  };
}

/** The turns of a record that this package or another program wrote. */
export function turnsOnFile({ turn_tokens: tokens, turn_rewards: rewards }: WireTurns): Pick<Trajectory, 'turnTokens' | 'turnRewards'> {
  return { ...(tokens === undefined ? {} : { turnTokens: tokens }), ...(rewards === undefined ? {} : { turnRewards: rewards }) };
}

type Outcome = Pick<Trajectory, 'reward' | 'error' | 'isUnpaid'>;

/** True for a supervised row: it was neither scored nor did it fail, and no reward is to come. */
export function isDemonstration({ reward, error, isUnpaid }: Outcome): boolean {
  return reward === null && error === null && isUnpaid === undefined;
}

/** True for a rollout that was played to its end, paid or not. */
export function isFinished(trajectory: Outcome): boolean {
  return trajectory.error === null && !isDemonstration(trajectory);
}

/** True if the policy had no room for a first token. Another attempt ends in the same way, and leaving it out makes no biased sample: no text decided it. */
export function isUnplayed({ error }: Pick<Trajectory, 'error'>): boolean {
  return error?.type === UNPLAYED;
}

/** The trajectory as one of this role; its own if there is none. */
export function withRole(trajectory: Trajectory, role = trajectory.role): Trajectory {
  return trajectory.role === role ? trajectory : { ...trajectory, role };
}

/** The trajectory without its reward, which comes later. A failed one stays as it is. */
export function unpaid<T extends Trajectory>(trajectory: T): T {
  return trajectory.error === null ? { ...trajectory, reward: null, isUnpaid: true } : trajectory;
}

/**
 * The trajectory with this reward, instead of any that it had, and with these metrics in addition to its own; one of the same name is replaced. Use it for rewards
 * that are known only when others have played: the reward of a proposal depends on the solutions of its task.
 *
 * @throws {TrainingError} for a failed trajectory and for a demonstration, which can have no reward
 * @throws {RewardError} for a reward or a metric that is not finite
 * @example const paid = withReward(proposal, 1 - solved, { learnability: 1 - solved });
 */
export function withReward(trajectory: Trajectory, reward: number, metrics: Readonly<Record<string, number>> = {}): Trajectory {
  const { rolloutId, error } = trajectory;
  if (error !== null) throw new TrainingError(`The rollout ${rolloutId} failed (${error.type}), so it can have no reward. Leave it without one.`);
  if (isDemonstration(trajectory))
    throw new TrainingError(`${rolloutId} is a demonstration, which can have no reward. Give a reward to rollouts only.`);
  const [wrong] = Object.entries({ reward, ...metrics }).filter(([, value]) => !Number.isFinite(value));
  if (wrong !== undefined)
    throw new RewardError(
      `The ${wrong[0] === 'reward' ? 'reward' : `metric "${wrong[0]}"`} of ${rolloutId} must be a finite number, got ${wrong[1]}. Where nobody knows it, return the trajectory among discarded instead.`,
    );
  const { isUnpaid: _, ...rest } = trajectory;
  const named = Object.fromEntries(Object.entries(metrics).map(([name, value]) => [name, value + 0]));
  const paid = Object.defineProperty({ ...trajectory.metrics, ...named }, PAID, { value: reward + 0 });
  return { ...rest, reward: reward + 0, metrics: paid };
}

/** Of every copy of this package: an environment may have loaded another one. Hidden, so that it is in no record. */
const PAID = Symbol.for('vf-search.paid');

/** The reward that `withReward` gave to a trajectory with these metrics, or to the one that it is a copy of; undefined if it gave none. */
export function paidReward({ metrics }: Pick<Trajectory, 'metrics'>): number | undefined {
  return (metrics as { readonly [PAID]?: number })[PAID];
}

const isModel = ({ kind }: TokenSegment) => kind === 'model';

type SampledTokens = Pick<Trajectory, 'ids' | 'promptLength' | 'targets' | 'versions' | 'images' | 'branches'> & {
  readonly version: number;
  readonly logProbs: Float64Array;
};

function sampledTokens({ branches, segments: written, policy: { version: leased } }: Rollout): SampledTokens {
  // Segments may be texts that an agent gave to be scored.
  const isPlayed = branches.flatMap(({ segments }) => segments).every((segment, i) => segment === written[i]);
  const parts = branches.flatMap((branch) => (branch.tokens === null ? [] : [{ ...branch, tokens: branch.tokens }]));
  const ids = new Int32Array(parts.reduce((sum, { tokens }) => sum + tokens.length, 0));
  const count = parts.reduce((sum, { tokens }) => sum + tokens.sampledLength, 0);
  const [targets, versions, logProbs] = [new Int32Array(count), new Int32Array(count), new Float64Array(count)];
  const images: PlacedImage[] = [];
  const placed: TrajectoryBranch[] = [];
  let [start, next] = [0, 0];
  for (const { tokens, parent, fork, segments, role, reward, endsLast } of parts) {
    ids.set(tokens.ids, start);
    const everyLogProb = tokens.logProbs;
    for (const { start: from, end, version, versions: spans = [{ version, tokens: end - from }] } of tokens.segments.filter(isModel)) {
      let filled = next;
      for (const span of spans) versions.fill(span.version ?? leased, filled, (filled += span.tokens));
      for (let at = from; at < end; at++, next++) {
        targets[next] = start + at;
        logProbs[next] = everyLogProb[at]!;
      }
    }
    for (const image of tokens.images) images.push({ ...image, offset: start + image.offset });
    const own = {
      ...(fork === null ? {} : { fork }),
      ...(isPlayed ? { segments: segments.length } : {}),
      ...(role === undefined ? {} : { role }),
      ...(reward === undefined ? {} : { reward }),
      ...(endsLast === undefined ? {} : { endsLast }),
    };
    placed.push({ start, end: start + tokens.length, promptLength: tokens.promptLength, parent, ...own });
    start += tokens.length;
  }
  const version = versions.reduce((smallest, each) => Math.min(smallest, each), versions[0] ?? leased);
  return {
    version,
    ids,
    promptLength: placed[0]?.promptLength ?? 0,
    targets,
    logProbs,
    ...(versions.some((each) => each !== version) ? { versions } : {}),
    ...(images.length === 0 ? {} : { images }),
    ...(placed.length > 1 || placed.some(({ role, reward }) => role !== undefined || reward !== undefined) ? { branches: placed } : {}),
  };
}
