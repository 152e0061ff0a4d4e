/**
 * Interface of credit assignment: turns the rewards of a batch into an advantage for every token. The built-in ones compare rollouts with each other; an environment
 * or a user's module brings its own by exporting `createCredit`. Each says only what a rollout, its turns or its tokens are worth: `creditBatch` makes the
 * sequences that losses train on.
 */
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { ForwardOptions } from './gradient-backend.ts';
import { isDemonstration, type Trajectory } from './trajectory.ts';

/** Log-probs without a gradient of the targets of each sequence, [M_i], under the policy that is trained or the one at the start of the run. NaN if they are not finite. */
export type LogProbPass = (
  sequences: readonly Pick<Trajectory, 'ids' | 'targets' | 'images' | 'branches'>[],
  adapter: ForwardOptions['adapter'],
) => Promise<readonly Float64Array[]>;

/** One generation of a rollout, and what the environment answered. */
export interface CreditTurn {
  /** The kept text that the policy wrote; null if it is unknown, as in some rollouts of a file. */
  readonly text: string | null;
  /** The text that the environment added after it; null if it added none, or if it is unknown. */
  readonly observation: string | null;
  /** What the environment's `step` said that it was worth by itself; null if it said nothing, which is not 0. */
  readonly reward: number | null;
  /** Its sampled tokens: [start, end) of the rollout's M. A turn may have none. */
  readonly start: number;
  readonly end: number;
}

/** A sequence of a rollout: of an agent that rewrites its history, asks sub-agents or asks for several answers there are several. */
export interface CreditBranch {
  /** Its own, or the rollout's. */
  readonly role: string;
  /** Its own, or the rollout's. Finite. */
  readonly reward: number;
  /** The index of the branch that it left, a smaller one; null if it shares no turn of the policy with another. */
  readonly parent: number | null;
  /** Its sampled tokens: [start, end) of the rollout's M. */
  readonly start: number;
  readonly end: number;
}

/** A finished rollout, which has a reward. */
export interface CreditRollout {
  /** All that is known of it: ids, targets, log-probs, metrics, role, task, stop condition, segments. */
  readonly trajectory: Trajectory;
  /** Its reward, without any penalty. Finite. */
  readonly reward: number;
  /** Number of sampled tokens, M; may be 0. */
  readonly tokens: number;
  /** Its generations, in order, one branch after another. Every sampled token is in one of them. */
  readonly turns: readonly CreditTurn[];
  /** Its branches, in order; one for most environments. */
  readonly branches: readonly CreditBranch[];
  /** β · KL of each token, [M], to be subtracted from its reward. Null unless the credit `needs` penalties and `algorithm.kl.placement` is `reward`. */
  readonly penalties: Float64Array | null;
  /** The innermost tag that each token is written in (`think`, `search`, `answer`), '' outside of tags, [M]. Null unless the credit `needs` kinds. */
  readonly kinds: readonly string[] | null;
}

/** The rollouts of a step. */
export interface CreditBatch {
  readonly step: number;
  /** The finished rollouts of each row, by index. At least one in each group; a group may lack those that failed. */
  readonly groups: readonly (readonly CreditRollout[])[];
  /** Rollouts without a reward: they failed, which is never a reward of 0. */
  readonly failed: readonly Trajectory[];
}

/**
 * What a rollout is worth: a number for all of its tokens, a list with a number for each turn (null leaves the turn out of the loss), a Float64Array with a number
 * for each sampled token, [M], or null, which leaves the rollout out of the loss and its divisor.
 */
export type Advantage = number | readonly (number | null)[] | Float64Array | null;

export interface CreditAssignment {
  /** One per rollout, in the form of `groups`. */
  readonly advantages: readonly (readonly Advantage[])[];
  /** Metrics of the step; those of a module are called `credit/<name>`. @default none */
  readonly values?: Readonly<Record<string, number | null>>;
  /** The reason why there is nothing to learn if all advantages are 0. @default that they are */
  readonly constantReason?: string;
}

export interface Credit {
  readonly needs?: {
    /** Gets the KL penalty of each token, and subtracts it from the rewards. Without it, `algorithm.kl.placement = "reward"` is refused. @default false */
    readonly penalties?: boolean;
    /** Gets the tag that each token is written in. @default false */
    readonly kinds?: boolean;
  };
  /** Called once a step that played rollouts, in order. Not async, as a loss is not. */
  assign(batch: CreditBatch): CreditAssignment;
  /** Writes what later steps depend on, such as running means, into a folder of a checkpoint. @default it has no state */
  saveState?(directory: string): Promise<void>;
  /** Reads what `saveState` wrote. Called before the first step of a run that goes on from a checkpoint. */
  loadState?(directory: string): Promise<void>;
}

export interface CreditContext {
  /** The settings of the run. */
  readonly config: TrainingConfig;
}

/**
 * Makes a credit from its settings, at each start of a run. Throws ConfigError for settings that it does not have.
 * @example export const createCredit: CreditFactory = () => ({
 *   assign: ({ groups }) => ({ advantages: groups.map((group) => group.map(({ reward }) => reward - 0.5)) }),
 * });
 */
export type CreditFactory = (args: Readonly<Record<string, unknown>>, context: CreditContext) => Credit;

/** The factory of a credit that an environment or a module brings, and its name in messages. */
export interface OwnCredit {
  readonly createCredit: CreditFactory;
  readonly module: string;
}

/** Metrics that such a credit defines. */
export const CREDIT_PREFIX = 'credit/';
/** Metrics with this prefix that the run measures, whatever the credit. */
export const MEASURED_CREDIT = ['credit/turn_reward_mean', 'credit/turns_rewarded'] as const;

/** A trajectory with what a loss needs. */
export interface TrainingSequence extends Pick<Trajectory, 'ids' | 'images'> {
  readonly trajectory: Trajectory;
  /** A supervised row: it has weights instead of a reward. */
  readonly isDemonstration: boolean;
  /** Tokens with a loss: indices in the trajectory's `ids`, without those that are masked. [M] or fewer */
  readonly targets: Int32Array;
  /** One per target. */
  readonly advantages: Float64Array;
  /** Log-probs of the targets under the sampler; null if they are unknown. */
  readonly logProbs: Float64Array | null;
  /** Denominator of the ratio; null uses the log-probs of the current pass, so that the ratio is 1. */
  readonly oldLogProbs: Float64Array | null;
  /** Under the policy at the start of the run; null if no loss needs it. */
  readonly referenceLogProbs: Float64Array | null;
  /** The tag that each target is written in. @default unknown */
  readonly kinds?: readonly string[];
  /** The rollout that it is a branch of. @default it is the whole */
  readonly branchOf?: {
    readonly trajectory: Trajectory;
    /** Its first id among those of the rollout. */
    readonly start: number;
  };
  /** Sequences with the same one count as one sequence, whose length is that of all: the branches of a rollout, unless `algorithm.branch_weight` is `token`. @default it counts by itself */
  readonly unit?: object;
}

/** The tag that each target of a trajectory is written in, [M]. */
export type TokenKinds = (trajectory: Trajectory) => readonly string[];

export interface CreditedBatch {
  /** Sequences that are never split between minibatches: the rollouts of a row, or a single row. In the order of the batch. */
  readonly groups: readonly (readonly TrainingSequence[])[];
  /** By their names in metrics.ts: `groups`, `groups_constant`, ... */
  readonly values: Readonly<Record<string, number | null>>;
  /** The reason why there is nothing to learn if all advantages are 0. */
  readonly constantReason: string;
  /** True if a user's credit gave that reason. @default false */
  readonly isOwnReason?: boolean;
}

/** What a user's credit returned, checked. */
export interface CheckedAssignment extends CreditAssignment {
  /** True if the module gave `constantReason`. */
  readonly isOwnReason: boolean;
}

/** The tokens of a trajectory with one advantage for all, or one for each. Only tokens that `isTrained` keeps have a loss. */
export function trainingSequence(
  trajectory: Trajectory,
  advantages: number | Float64Array,
  isTrained: ((token: number) => boolean) | null = null,
): TrainingSequence {
  const { ids, images, targets, logProbs } = trajectory;
  const perToken = typeof advantages === 'number' ? new Float64Array(targets.length).fill(advantages) : advantages;
  const isKept = (_: number, token: number) => isTrained!(token);
  return {
    trajectory,
    ids,
    ...(images === undefined ? {} : { images }),
    isDemonstration: isDemonstration(trajectory),
    targets: isTrained === null ? targets : targets.filter(isKept),
    advantages: isTrained === null ? perToken : perToken.filter(isKept),
    logProbs: isTrained === null ? logProbs : (logProbs?.filter(isKept) ?? null),
    oldLogProbs: null,
    referenceLogProbs: null,
  };
}

/** A supervised row: the weight of each token is its advantage. */
export function demonstration(trajectory: Trajectory): TrainingSequence {
  return trainingSequence(trajectory, trajectory.weights ?? 1);
}

/** The trajectories of each group, by index: the batch must not depend on which rollout ended first. */
export function byGroup(trajectories: readonly Trajectory[]): readonly (readonly Trajectory[])[] {
  const groups = new Map<string, Trajectory[]>();
  for (const { groupId } of trajectories) groups.set(groupId, []);
  for (const trajectory of trajectories.toSorted((a, b) => a.index - b.index)) groups.get(trajectory.groupId)!.push(trajectory);
  return [...groups.values()];
}
