/** The sequences of a trajectory with several branches: what of it lies in which, and what is wrong with branches that somebody else wrote. */
import { stretches } from '../schemas/turn-columns.ts';
import type { Trajectory, TrajectoryBranch } from './trajectory.ts';

type Numbers = Int32Array | Float64Array;

/** What lies in a branch: [from, to) of the M sampled tokens, and the number of its turns. */
export interface BranchPlace {
  readonly branch: TrajectoryBranch;
  readonly from: number;
  readonly to: number;
  readonly turns: number;
}

type Placed = Pick<Trajectory, 'ids' | 'targets' | 'branches'> & Partial<Pick<Trajectory, 'turnTokens' | 'promptLength'>>;

/** One for each branch, in order; one for the whole if there are no branches. A turn without tokens goes with the turn before it. */
export function branchPlaces(trajectory: Placed): readonly BranchPlace[] {
  const { ids, targets, turnTokens, promptLength = 0 } = trajectory;
  const branches = trajectory.branches ?? [{ start: 0, end: ids.length, promptLength, parent: null }];
  const lengths = turnTokens ?? stretches(targets);
  let [to, turn, done] = [0, 0, 0];
  return branches.map((branch, i) => {
    const [from, first] = [to, turn];
    while (to < targets.length && targets[to]! < branch.end) to++;
    const tokens = i === branches.length - 1 ? Infinity : to;
    for (; turn < lengths.length && (done < tokens || lengths[turn] === 0); turn++) done += lengths[turn]!;
    return { branch, from, to, turns: turn - first };
  });
}

/** Ids, sampled tokens and images of a sequence. */
export type TokenPart = Pick<Trajectory, 'ids' | 'targets' | 'images'>;

/** Those of each branch, counted from its start; the whole itself if it is one sequence. */
export function tokenParts(whole: TokenPart & Pick<Trajectory, 'branches'>): readonly TokenPart[] {
  if (whole.branches === undefined) return [whole];
  return branchPlaces(whole).map(({ branch: { start, end }, from, to }) => {
    const images = whole.images?.filter(({ offset }) => offset >= start && offset < end) ?? [];
    return {
      ids: whole.ids.subarray(start, end),
      targets: whole.targets.slice(from, to).map((at) => at - start),
      ...(images.length === 0 ? {} : { images: images.map((image) => ({ ...image, offset: image.offset - start })) }),
    };
  });
}

/**
 * The trajectory as its sequences: one trajectory for each branch, with the ids, targets, turns and images that lie in it, its role and its reward; the trajectory itself
 * if it is one sequence. Which texts are whose is known of the whole only, so they have none.
 *
 * @example for (const { ids, promptLength } of sequencesOf(trajectory)) { ... }
 */
export function sequencesOf(trajectory: Trajectory): readonly Trajectory[] {
  if (trajectory.branches === undefined) return [trajectory];
  const { branches: _, images: __, logProbs, weights, versions, turnTokens, turnRewards, ...rest } = trajectory;
  const parts = tokenParts(trajectory);
  let turn = 0;
  return branchPlaces(trajectory).map(({ branch, from, to, turns }, i) => {
    const { promptLength, role = rest.role, reward = rest.reward } = branch;
    const own = <T extends Numbers>(values: T): T => values.slice(from, to) as T;
    const [first, next] = [turn, (turn += turns)];
    return {
      ...rest,
      ...parts[i]!,
      role,
      reward: rest.reward === null ? null : reward,
      promptLength,
      logProbs: logProbs && own(logProbs),
      turns,
      segments: [],
      ...(weights === undefined ? {} : { weights: own(weights) }),
      ...(versions === undefined ? {} : { versions: own(versions) }),
      ...(turnTokens === undefined ? {} : { turnTokens: turnTokens.slice(first, next) }),
      ...(turnRewards === undefined ? {} : { turnRewards: turnRewards.slice(first, next) }),
    };
  });
}

/** True if a branch has a reward of its own, so that branches are compared with those of the same role. */
export function hasBranchRewards({ branches = [] }: Pick<Trajectory, 'branches'>): boolean {
  return branches.some(({ reward }) => reward !== undefined);
}

/** The roles that wrote it: its own, or those of its branches. */
export function rolesOf({ role, branches }: Pick<Trajectory, 'role' | 'branches'>): readonly string[] {
  return branches === undefined ? [role] : branches.map((branch) => branch.role ?? role);
}

/** True if a branch has a role of its own. */
export function hasBranchRoles({ branches = [] }: Pick<Trajectory, 'branches'>): boolean {
  return branches.some(({ role }) => role !== undefined);
}

/** The rewards that are compared with each other: those of the finished rollouts, or of their branches of each role if some branch has a reward of its own. */
export function comparedRewards(rollouts: readonly Trajectory[]): readonly (readonly number[])[] {
  const rewardsOf = (each: readonly Trajectory[]) => each.flatMap(({ reward }) => reward ?? []);
  if (!rollouts.some(hasBranchRewards)) return [rewardsOf(rollouts)];
  return [...Map.groupBy(rollouts.flatMap(sequencesOf), ({ role }) => role).values()].map(rewardsOf);
}

/** The fault of branches that a file or somebody's source brings; null if they are in order, without gaps, and hold every target behind a prompt. */
export function branchProblem(trajectory: Placed): string | null {
  const { branches, ids, targets } = trajectory;
  if (branches === undefined) return null;
  if (!Array.isArray(branches) || branches.length === 0) return 'branches must be a list of { start, end, promptLength, parent }, or be left out';
  let end = 0;
  for (const [i, branch] of (branches as readonly TrajectoryBranch[]).entries()) {
    const problem = rangeProblem(branch, { i, end, promptLength: trajectory.promptLength }) ?? partProblem(branch);
    if (problem !== null) return `branches[${i}] ${problem}`;
    end = branch.end;
  }
  if (branches.filter(({ endsLast }) => endsLast === true).length > 1) return 'several branches end last';
  if (end !== ids.length) return `the branches end at ${end} of ${ids.length} ids`;
  for (const [i, { branch, from, to }] of branchPlaces(trajectory).entries()) {
    const first = branch.start + Math.max(branch.promptLength, 1);
    if (from < to && targets[from]! < first) return `branches[${i}] has the target ${targets[from]} in its prompt, which ends at ${first}`;
  }
  return turnProblem(trajectory);
}

interface Expected {
  readonly i: number;
  readonly end: number;
  readonly promptLength: number | undefined;
}

function rangeProblem(branch: TrajectoryBranch, { i, end, promptLength }: Expected): string | null {
  if (typeof branch !== 'object' || branch === null) return `must be { start, end, promptLength, parent }, got ${JSON.stringify(branch)}`;
  const { start, end: own, promptLength: prompt, parent } = branch;
  if (start !== end) return `must start at ${end}, where the branch before it ends, got ${start}`;
  if (!Number.isInteger(own) || own < start) return `must end at or after its start ${start}, got ${own}`;
  if (!Number.isInteger(prompt) || prompt < 0 || prompt > own - start) return `has ${own - start} ids and the promptLength ${prompt}`;
  if (i === 0 && promptLength !== undefined && prompt !== promptLength) return `has the promptLength ${prompt}, and the trajectory ${promptLength}`;
  if (parent === null || (Number.isInteger(parent) && parent >= 0 && parent < i)) return null;
  return `must have the index of an earlier branch as its parent, or null, got ${JSON.stringify(parent)}`;
}

function partProblem({ role, reward, endsLast }: Readonly<Partial<Record<keyof TrajectoryBranch, unknown>>>): string | null {
  if (endsLast !== undefined && endsLast !== true) return `must have endsLast true, or none, got ${JSON.stringify(endsLast)}`;
  if (role !== undefined && (typeof role !== 'string' || role === '')) return `must have a name as its role, got ${JSON.stringify(role)}`;
  if (reward === undefined || Number.isFinite(reward)) return null;
  return `must have a finite number as its reward, or none, got ${typeof reward === 'number' ? reward : JSON.stringify(reward)}`;
}

function turnProblem(trajectory: Placed): string | null {
  if (trajectory.turnTokens === undefined) return null;
  const ends = new Set(branchPlaces(trajectory).map(({ to }) => to));
  let at = 0;
  for (const [turn, tokens] of trajectory.turnTokens.entries()) {
    for (let token = at + 1; token < at + tokens; token++) if (ends.has(token)) return `the tokens of turn ${turn} lie in two branches`;
    at += tokens;
  }
  return null;
}
