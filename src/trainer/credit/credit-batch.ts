/**
 * Credits a batch: gives the finished rollouts to a credit, and makes sequences with an advantage for every token of what it says they are worth. Signs, the weights of
 * stale rollouts and masks of truncated ones are applied here, for every credit alike. The tokens of supervised rows have their weights.
 */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import {
  type CheckedAssignment,
  type CreditAssignment,
  type Advantage,
  byGroup,
  type Credit,
  type CreditedBatch,
  type CreditRollout,
  demonstration,
  type LogProbPass,
  type TokenKinds,
  trainingSequence,
  type TrainingSequence,
} from '../credit.ts';
import { branchPlaces } from '../trajectory-branches.ts';
import { isDemonstration, type Trajectory } from '../trajectory.ts';
import { chosenPlaces, chosenTokens } from './branch-sequences.ts';
import { meanOrNull } from './group-credit.ts';
import { creditable, penaltyValues, rewardPenalties } from './kl-penalty.ts';
import type { TeacherScores } from './teacher-scores.ts';
import { turnsOf } from './rollout-turns.ts';
import { TURN_CREDIT } from './turn-credit.ts';

export interface CreditOptions {
  readonly config: Pick<TrainingConfig, 'algorithm' | 'rollouts'>;
  readonly step: number;
  /** For a KL penalty in the reward, which needs log-probs under the policy at the start of the run. */
  readonly pass: LogProbPass;
  /** Null unless the credit or a loss needs them. @default null */
  readonly kinds?: TokenKinds | null;
  /** The teacher's log-probs of these trajectories; null without a teacher. @default null */
  readonly teach?: ((trajectories: readonly Trajectory[]) => Promise<TeacherScores>) | null;
}

export async function creditBatch(credit: Credit, trajectories: readonly Trajectory[], options: CreditOptions): Promise<CreditedBatch> {
  const { kinds = null } = options;
  const withKinds = (sequence: TrainingSequence) => (kinds === null ? sequence : { ...sequence, kinds: kindsOf(sequence, kinds) });
  const demonstrations = trajectories.filter(isDemonstration).map((row) => [withKinds(demonstration(row))]);
  const played = byGroup(trajectories.filter((trajectory) => !isDemonstration(trajectory))).flat();
  if (played.length === 0) return { groups: demonstrations, values: {}, constantReason: 'no rollout was played' };
  const { config, step, pass, teach = null } = options;
  const taught = teach === null ? null : await teach(played.filter(({ reward }) => reward !== null));
  const references = config.algorithm.teacher?.as === 'kl' ? (taught?.logProbs ?? null) : null;
  const penalties = credit.needs?.penalties === true ? await rewardPenalties(played, config.algorithm, { pass, references }) : null;
  const finished = creditable(played, penalties);
  const groups = byGroup(finished).map((members) =>
    members.map((member) => creditRollout(member, penalties?.get(member) ?? null, credit.needs?.kinds === true ? kinds : null)),
  );
  const credited = new Set(finished);
  const failed = played.filter((trajectory) => !credited.has(trajectory));
  const isByTeacher = config.algorithm.teacher?.withReward === false;
  const assigned: CreditAssignment & Partial<CheckedAssignment> = isByTeacher ? byTeacherAlone(groups) : credit.assign({ step, groups, failed });
  const sequences = groups.map((members, g) =>
    members.flatMap(
      (member, i) => sequenceOf(member, assigned.advantages[g]![i]!, { ...config, references, taught: taught?.advantages ?? null }) ?? [],
    ),
  );
  return {
    groups: [...sequences.filter((members) => members.length > 0).map((members) => members.map(withKinds)), ...demonstrations],
    values: {
      groups: groups.length,
      sequences_dropped: played.filter(({ reward }) => reward !== null).length - finished.length,
      ...penaltyValues(penalties, config.algorithm),
      ...turnFigures(groups.flat(), config),
      ...branchFigures(groups.flat(), config),
      ...taught?.values,
      ...assigned.values,
    },
    constantReason: assigned.constantReason ?? 'the credit of every rollout is 0',
    ...(assigned.isOwnReason === true && { isOwnReason: true }),
  };
}

/** The credit of rewards that have no part in the advantages. */
function byTeacherAlone(groups: readonly (readonly CreditRollout[])[]): CreditAssignment & Partial<CheckedAssignment> {
  return {
    advantages: groups.map((members) => members.map(() => 0)),
    constantReason: 'the teacher finds every token as likely as the policy does',
    isOwnReason: true,
  };
}

/** What the environment said that turns are worth, whatever the credit makes of it; nothing if it rewarded none, unless the credit reads it. */
function turnFigures(rollouts: readonly CreditRollout[], { algorithm }: CreditOptions['config']): CreditedBatch['values'] {
  const known = rollouts.flatMap(({ trajectory: { turnRewards = [] } }) => turnRewards.filter((reward) => reward !== null));
  if (known.length === 0 && algorithm.advantage.use !== TURN_CREDIT) return {};
  const turns = rollouts.reduce((sum, rollout) => sum + rollout.turns.length, 0);
  return { 'credit/turn_reward_mean': meanOrNull(known), 'credit/turns_rewarded': turns === 0 ? null : known.length / turns };
}

/** Nothing unless a rollout has several branches. */
function branchFigures(rollouts: readonly CreditRollout[], { algorithm }: CreditOptions['config']): CreditedBatch['values'] {
  if (rollouts.every(({ trajectory: { branches = [] } }) => branches.length < 2)) return {};
  const tokens = rollouts.reduce((sum, rollout) => sum + rollout.tokens, 0);
  const kept = rollouts.reduce(
    (sum, { trajectory }) => sum + chosenPlaces(trajectory, algorithm.branches).reduce((own, { from, to }) => own + to - from, 0),
    0,
  );
  return { branch_tokens_left_out: tokens === 0 ? null : 1 - kept / tokens };
}

/** The trajectory, which has a reward, as a credit sees it. */
export function creditRollout(trajectory: Trajectory, penalties: Float64Array | null = null, kinds: TokenKinds | null = null): CreditRollout {
  let turns: CreditRollout['turns'] | null = null;
  let branches: CreditRollout['branches'] | null = null;
  const reward = trajectory.reward!;
  const { role } = trajectory;
  return {
    trajectory,
    reward,
    tokens: trajectory.targets.length,
    get turns() {
      return (turns ??= turnsOf(trajectory));
    },
    get branches() {
      return (branches ??= branchPlaces(trajectory).map(({ branch, from, to }) => ({
        role: branch.role ?? role,
        reward: branch.reward ?? reward,
        parent: branch.parent,
        start: from,
        end: to,
      })));
    },
    penalties,
    kinds: kinds?.(trajectory) ?? null,
  };
}

function kindsOf({ trajectory, targets }: TrainingSequence, kinds: TokenKinds): readonly string[] {
  const all = kinds(trajectory);
  if (targets.length === trajectory.targets.length) return all;
  const kept = new Set(targets);
  return all.filter((_, token) => kept.has(trajectory.targets[token]!));
}

interface SequenceOptions extends Pick<TrainingConfig, 'algorithm' | 'rollouts'> {
  /** Of the teacher, [M]; null if it has no advantages. */
  readonly taught: ReadonlyMap<Trajectory, Float64Array> | null;
  /** The teacher's log-probs in place of the reference's, [M]; null if it does not take its place. */
  readonly references: ReadonlyMap<Trajectory, Float64Array> | null;
}

/** Null for a rollout that is left out. */
function sequenceOf(
  rollout: CreditRollout,
  credited: Advantage,
  { algorithm, rollouts, taught, references }: SequenceOptions,
): TrainingSequence | null {
  const { trajectory, turns } = rollout;
  const advantage = taught === null ? credited : withTeacher(rollout, credited, taught.get(trajectory) ?? null);
  if (advantage === null) return null;
  const factor = (algorithm.negateAdvantages ? -1 : 1) * (trajectory.staleWeight ?? 1);
  const perToken = new Float64Array(trajectory.targets.length);
  let isTrained: ((token: number) => boolean) | null = null;
  if (typeof advantage === 'number') perToken.fill(factor * advantage);
  else if (advantage instanceof Float64Array) for (const [t, value] of advantage.entries()) perToken[t] = factor * value;
  else for (const [i, { start, end }] of turns.entries()) perToken.fill(factor * (advantage[i] ?? NaN), start, end);
  // A turn or a branch that is left out.
  if (perToken.some(Number.isNaN)) isTrained = (token) => !Number.isNaN(perToken[token]);
  if (rollouts.truncated === 'mask' && trajectory.isTruncated) isTrained = () => false;
  const inChosen = chosenTokens(trajectory, algorithm.branches);
  const isKept = isTrained;
  if (inChosen !== null) isTrained = (token) => inChosen(token) && (isKept?.(token) ?? true);
  const sequence = trainingSequence(trajectory, perToken, isTrained);
  const reference = references?.get(trajectory);
  if (reference === undefined) return sequence;
  return { ...sequence, referenceLogProbs: isTrained === null ? reference : reference.filter((_, token) => isTrained(token)) };
}

/** The credit's advantage of each token plus the teacher's, [M]. What the credit leaves out counts as 0: the teacher still has something to say of it. */
function withTeacher({ tokens, turns }: CreditRollout, credited: Advantage, taught: Float64Array | null): Advantage {
  if (taught === null) return credited;
  if (credited === null) return taught;
  const perToken = new Float64Array(tokens);
  if (typeof credited === 'number') perToken.fill(credited);
  else if (credited instanceof Float64Array) perToken.set(credited.map((value) => (Number.isNaN(value) ? 0 : value)));
  else for (const [i, { start, end }] of turns.entries()) perToken.fill(credited[i] ?? 0, start, end);
  return perToken.map((value, token) => value + taught[token]!);
}
