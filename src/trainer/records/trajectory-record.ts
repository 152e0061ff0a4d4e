/** Converts a trajectory to a line of a file and back, bit-exact. */
import type { TextSegment } from '../../core/rubric.ts';
import { packArray, unpackFloat64, unpackInt32 } from '../../schemas/packed-array.ts';
import { recordedProblem } from '../../schemas/log-prob-range.ts';
import { parseWire } from '../../schemas/results.ts';
import { TrajectorySchema, type WireTrajectoryBranch, type WireTrajectory } from '../../schemas/training-records.ts';
import { turnProblem } from '../../schemas/turn-columns.ts';
import { redactUrl } from '../../transport/redact.ts';
import { forkOf, ownColumns, ownOfColumns } from '../../rollouts/branch-columns.ts';
import { factColumns, factsOf, imageColumns, placedImageOf, reasonOf, usageColumns } from '../../rollouts/rollout-columns.ts';
import { branchProblem } from '../trajectory-branches.ts';
import { POLICY_ROLE, type Trajectory, type TrajectoryBranch, turnsOnFile } from '../trajectory.ts';

/** `redact` removes the run's secrets from text. Ids and tokens stay unchanged whatever they spell, because a resume needs them. */
export function trajectoryRecord(trajectory: Trajectory, redact: (text: string) => string): WireTrajectory {
  const { error } = trajectory;
  return {
    ...factColumns(trajectory),
    metrics: trajectory.metrics,
    error: error && {
      type: error.type,
      message: redact(redactUrl(error.message)),
      retryable: error.retryable,
      source: error.source,
      ...(error.phase === undefined ? {} : { phase: error.phase }),
      ...reasonOf(error),
    },
    token_usage: usageColumns(trajectory.usage),
    segments: trajectory.segments.map(({ kind, text }) => ({ kind, text: redact(text) })),
    prompt_length: trajectory.promptLength,
    ids: packArray(trajectory.ids),
    targets: packArray(trajectory.targets),
    ...(trajectory.isUnpaid === true ? { unpaid: true } : {}),
    ...(trajectory.logProbs === null ? {} : { log_probs: packArray(trajectory.logProbs) }),
    ...(trajectory.versions === undefined ? {} : { versions: packArray(trajectory.versions) }),
    ...(trajectory.turnTokens === undefined ? {} : { turn_tokens: [...trajectory.turnTokens] }),
    ...(trajectory.turnRewards === undefined ? {} : { turn_rewards: [...trajectory.turnRewards] }),
    ...(trajectory.images === undefined ? {} : { images: trajectory.images.map(imageColumns) }),
    ...(trajectory.branches === undefined ? {} : { branches: trajectory.branches.map((branch) => branchColumns(branch, redact)) }),
  };
}

function branchColumns(branch: TrajectoryBranch, redact: (text: string) => string): WireTrajectoryBranch {
  const { start, end, promptLength, parent, fork, segments, ...own } = branch;
  const why = fork === undefined ? {} : { fork: { ...fork, difference: redact(fork.difference) } };
  return { length: end - start, prompt_length: promptLength, parent, ...why, ...(segments === undefined ? {} : { segments }), ...ownColumns(own) };
}

function branchesOf(wire: readonly WireTrajectoryBranch[]): readonly TrajectoryBranch[] {
  let end = 0;
  return wire.map(({ length, prompt_length: promptLength, parent, fork, segments, ...own }) => ({
    start: end,
    end: (end += length),
    promptLength,
    parent,
    ...(fork === undefined ? {} : { fork: forkOf(fork)! }),
    ...(segments === undefined ? {} : { segments }),
    ...ownOfColumns(own),
  }));
}

/** A line of a file of rollouts without its tokens: only texts, rewards and counts stay. Lines of other kinds stay as they are. */
export function thinLine(text: string): string {
  const parsed = parseWire(TrajectorySchema, text);
  if ('problem' in parsed) return text;
  const { log_probs: _, versions: __, images: ___, turn_tokens: ____, ...rest } = parsed.value;
  const branches = rest.branches?.map((branch) => ({ ...branch, length: 0, prompt_length: 0 }));
  const thin: WireTrajectory = { ...rest, ...(branches && { branches }), prompt_length: 0, ids: '', targets: '', thinned: true };
  return JSON.stringify(thin);
}

/** Parses a line of a file as a trajectory, or returns a description of its fault. */
export function parseTrajectory(text: string): { readonly value: Trajectory } | { readonly problem: string } {
  const parsed = parseWire(TrajectorySchema, text);
  if ('problem' in parsed) return parsed;
  const wire = parsed.value;
  const arrays = parseArrays(wire);
  if ('problem' in arrays) return arrays;
  if ([wire.reward, wire.error, wire.unpaid ?? null].filter((outcome) => outcome !== null).length !== 1)
    return { problem: 'a rollout that must have a reward, an error or a reward to come (unpaid), and only one of them' };
  const value: Trajectory = {
    ...factsOf(wire),
    role: wire.role ?? POLICY_ROLE,
    ...(wire.unpaid === undefined ? {} : { isUnpaid: wire.unpaid }),
    metrics: wire.metrics,
    error: wire.error as Trajectory['error'],
    promptLength: wire.prompt_length,
    ...arrays,
    ...turnsOnFile(wire),
    ...(wire.images === undefined ? {} : { images: wire.images.map(placedImageOf) }),
    segments: wire.segments as TextSegment[],
  };
  return { value };
}

type Arrays = Pick<Trajectory, 'ids' | 'targets' | 'logProbs' | 'versions' | 'branches'>;

function parseArrays(wire: WireTrajectory): Arrays | { problem: string } {
  const ids = unpackInt32(wire.ids);
  const targets = unpackInt32(wire.targets);
  const logProbs = wire.log_probs === undefined ? undefined : unpackFloat64(wire.log_probs);
  const versions = wire.versions === undefined ? undefined : unpackInt32(wire.versions);
  if (!ids || !targets || logProbs === null || versions === null) return { problem: 'an array that is not base64 of a whole number of elements' };
  if (wire.prompt_length > ids.length) return { problem: `prompt_length ${wire.prompt_length} exceeds its ${ids.length} ids` };
  const isAscending = targets.every((at, i) => at >= (i === 0 ? wire.prompt_length : targets[i - 1]! + 1) && at < ids.length);
  if (!isAscending) return { problem: 'targets that are not ascending indices after the prompt' };
  if ((logProbs ?? targets).length !== targets.length || (versions ?? targets).length !== targets.length) {
    return { problem: `${targets.length} targets, ${(logProbs ?? targets).length} log_probs and ${(versions ?? targets).length} versions` };
  }
  const foreign = recordedProblem(ids, logProbs ?? []);
  if (foreign !== null) return { problem: foreign };
  const turns = wire.thinned === true ? null : turnProblem(wire, targets);
  if (turns !== null) return { problem: turns };
  if (wire.images?.some(({ offset, length }) => offset + length > ids.length) === true) return { problem: `images beyond its ${ids.length} ids` };
  const branches = wire.branches === undefined ? {} : { branches: branchesOf(wire.branches) };
  const turnTokens = wire.thinned === true ? undefined : wire.turn_tokens;
  const branched = branchProblem({ ids, targets, promptLength: wire.prompt_length, ...branches, ...(turnTokens && { turnTokens }) });
  if (branched !== null) return { problem: branched };
  return { ids, targets, logProbs: logProbs ?? null, ...(versions === undefined ? {} : { versions }), ...branches };
}
