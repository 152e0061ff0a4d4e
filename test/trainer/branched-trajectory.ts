/** Made-up trajectories with branches, and the same tokens as one sequence. */
import type { Trajectory, TrajectoryBranch } from '../../src/trainer/trajectory.ts';
import { trajectory } from './some-trajectories.ts';

export interface MadeUpBranch {
  /** The log-probs of its sampled tokens under the sampler, one turn. */
  readonly sampled: readonly number[];
  /** Ids before the first of them. @default 2 */
  readonly prompt?: number;
  /** @default null */
  readonly parent?: number | null;
  readonly role?: string;
  readonly reward?: number;
  readonly endsLast?: true;
}

/** Ids count up from 1 over all branches, so that each names its place; a token of the environment ends each branch. */
export function branched(rolloutId: string, branches: readonly MadeUpBranch[], changes: Partial<Trajectory> = {}): Trajectory {
  const placed: TrajectoryBranch[] = [];
  const targets: number[] = [];
  let end = 0;
  for (const { sampled, prompt = 2, parent = null, role, reward, endsLast } of branches) {
    const start = end;
    for (const i of sampled.keys()) targets.push(start + prompt + i);
    end = start + prompt + sampled.length + 1;
    placed.push({
      start,
      end,
      promptLength: prompt,
      parent,
      ...(role === undefined ? {} : { role }),
      ...(reward === undefined ? {} : { reward }),
      ...(endsLast === undefined ? {} : { endsLast }),
    });
  }
  return trajectory(rolloutId, {
    ids: Int32Array.from({ length: end }, (_, i) => i + 1),
    promptLength: placed[0]!.promptLength,
    targets: Int32Array.from(targets),
    logProbs: Float64Array.from(branches.flatMap(({ sampled }) => sampled)),
    turns: branches.length,
    turnTokens: branches.map(({ sampled }) => sampled.length),
    segments: branches.map((_, i) => ({ kind: 'model', text: `turn ${i}` })),
    usage: { inputTokens: end - targets.length, outputTokens: targets.length, cachedTokens: null },
    ...(placed.length > 1 || placed.some(({ role, reward }) => role !== undefined || reward !== undefined) ? { branches: placed } : {}),
    ...changes,
  });
}
