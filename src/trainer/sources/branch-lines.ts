/** Joins the lines of a rollout with several branches, of which `vf-export` writes one for each, to one trajectory. */
import { ConfigError } from '../../core/errors.ts';
import type { RolloutExport } from '../../schemas/rollout-export.ts';
import { stretches } from '../../schemas/turn-columns.ts';
import { POLICY_ROLE, type Trajectory, type TrajectoryBranch, turnsOnFile } from '../trajectory.ts';

export interface RolloutLine {
  readonly rollout: RolloutExport;
  readonly line: number;
  /** For messages. */
  readonly place: string;
}

/** One rollout: its only line, or the lines of its branches in order. */
export type RolloutLines = readonly [RolloutLine, ...RolloutLine[]];

/**
 * Throws ConfigError for a branch whose line does not follow that of the branch before it, and for a rollout without its last. Where lines do not say how many branches it has
 * (`branch_count`), it is known to be whole once a line of another one, or the end, is read.
 */
export async function* rolloutsOfLines(lines: AsyncIterable<RolloutLine>): AsyncGenerator<RolloutLines, void> {
  let open: [RolloutLine, ...RolloutLine[]] | null = null;
  for await (const next of lines) {
    const { branch = 0, branch_count: count } = next.rollout;
    if (branch > 0) {
      const problem = open === null ? 'no line of the rollout comes before it' : followingProblem(open, next.rollout);
      if (problem !== null)
        throw new ConfigError(
          `${next.place} is branch ${branch} of the rollout ${next.rollout.rollout_id}, but ${problem}. Keep the lines of a rollout together, branch 0 first`,
        );
      open!.push(next);
    } else {
      if (open !== null) yield whole(open);
      open = [next];
    }
    if (next.rollout.branch !== undefined && branch + 1 !== count) continue;
    yield open!;
    open = null;
  }
  if (open !== null) yield whole(open);
}

function whole(lines: RolloutLines): RolloutLines {
  const { rollout, place } = lines[0];
  if (rollout.branch_count === undefined || rollout.branch_count === lines.length) return lines;
  throw new ConfigError(
    `${place} begins the rollout ${rollout.rollout_id}, which has ${rollout.branch_count} branches, but the file has only ${lines.length} of them here. Export it again`,
  );
}

/** What all lines of a rollout say alike. */
const SHARED = ['group_id', 'example_id', 'reward', 'stop_condition', 'task', 'branch_count'] as const satisfies readonly (keyof RolloutExport)[];

function followingProblem([first, ...rest]: RolloutLines, next: RolloutExport): string | null {
  const { rollout } = first;
  if (rollout.rollout_id !== next.rollout_id || rollout.run_name !== next.run_name)
    return `the line before it is of the rollout ${rollout.rollout_id}`;
  if (next.branch !== rest.length + 1) return `the line before it is its branch ${rest.length}`;
  const other = SHARED.find((name) => rollout[name] !== next[name]);
  return other === undefined ? null : `its ${other} is ${JSON.stringify(next[other])}, and that of branch 0 ${JSON.stringify(rollout[other])}`;
}

/** @param index of the rollout in its group */
export function trajectoryOfLines(lines: RolloutLines, index: number): Trajectory {
  const parts = lines.map(({ rollout }) => rollout);
  const { rollout } = lines[0];
  const ids = Int32Array.from(parts.flatMap((part) => part.token_ids));
  const mask = parts.flatMap((part) => part.loss_mask);
  const logProbs = parts.flatMap((part) => part.logprobs);
  const targets = Int32Array.from(ids.keys()).filter((at) => mask[at] === 1);
  return {
    rolloutId: rollout.rollout_id,
    groupId: rollout.group_id,
    index,
    role: rollout.role ?? POLICY_ROLE,
    task: rollout.task ?? null,
    reward: rollout.reward + 0,
    metrics: rollout.metrics,
    error: null,
    stop: rollout.stop_condition,
    isTruncated: parts.some((part) => part.is_truncated),
    isCut: false,
    turns: parts.reduce((sum, part) => sum + turnCount(part), 0),
    policy: { model: rollout.policy.model, version: Math.min(...parts.map(({ policy }) => policy.version)) },
    usage: { inputTokens: ids.length - targets.length, outputTokens: targets.length, cachedTokens: null },
    ids,
    promptLength: rollout.prompt_length,
    targets,
    logProbs: Float64Array.from(targets, (at) => logProbs[at]!),
    ...(rollout.branch === undefined ? turnsOnFile(rollout) : { ...turnsOfBranches(parts), branches: branchesOf(parts) }),
    segments: [],
  };
}

function turnCount({ turn_tokens: tokens, segments }: RolloutExport): number {
  return tokens?.length ?? segments.filter(({ kind }) => kind === 'model').length;
}

function branchesOf(parts: readonly RolloutExport[]): readonly TrajectoryBranch[] {
  const hasRoles = parts.some(({ role }) => role !== parts[0]!.role);
  let end = 0;
  return parts.map(({ token_ids: ids, prompt_length: promptLength, parent = null, role, branch_reward: reward, ends_last: endsLast }) => ({
    start: end,
    end: (end += ids.length),
    promptLength,
    parent,
    ...(hasRoles && role !== undefined ? { role } : {}),
    ...(reward === undefined ? {} : { reward: reward + 0 }),
    ...(endsLast === undefined ? {} : { endsLast }),
  }));
}

/** The turns of all branches, each as its line says or as its stretches of sampled tokens are. */
function turnsOfBranches(parts: readonly RolloutExport[]): Pick<Trajectory, 'turnTokens' | 'turnRewards'> {
  if (parts.every(({ turn_tokens: tokens, turn_rewards: rewards }) => tokens === undefined && rewards === undefined)) return {};
  const tokens = parts.map((part) => part.turn_tokens ?? stretches(part.loss_mask.flatMap((bit, at) => (bit === 1 ? [at] : []))));
  const rewards = parts.flatMap((part, i) => part.turn_rewards ?? tokens[i]!.map(() => null));
  return { turnTokens: tokens.flat(), ...(rewards.every((reward) => reward === null) ? {} : { turnRewards: rewards }) };
}
