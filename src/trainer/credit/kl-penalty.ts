import type { TrainingConfig } from '../../schemas/training-config.ts';
import { klPenalties } from '../losses/kl.ts';
import type { LogProbPass } from '../credit.ts';
import type { Trajectory } from '../trajectory.ts';

interface ReferenceSource {
  readonly pass: LogProbPass;
  /** A teacher's log-probs, in place of those at the start of the run. @default null */
  readonly references?: ReadonlyMap<Trajectory, Float64Array> | null;
}

/**
 * KL in the reward: β · k of each sampled token, [M], which is subtracted from the reward. Null if none is configured. A trajectory whose log-probs are not
 * finite is absent, because it cannot be credited.
 */
export async function rewardPenalties(
  trajectories: readonly Trajectory[],
  { kl, oldLogProbs }: TrainingConfig['algorithm'],
  { pass, references: given = null }: ReferenceSource,
): Promise<ReadonlyMap<Trajectory, Float64Array> | null> {
  if (kl.coefficient === 0 || kl.placement !== 'reward') return null;
  const finished = trajectories.filter(({ reward, targets }) => reward !== null && targets.length > 0);
  const known = oldLogProbs === 'sampler' && finished.every(({ logProbs }) => logProbs !== null);
  const own = known ? finished.map(({ logProbs }) => logProbs!) : await pass(finished, 'on');
  const references = given === null ? await pass(finished, 'initial') : finished.map((trajectory) => given.get(trajectory)!);
  const config = { ...kl, clamp: kl.clamp === null ? null : ([-kl.clamp, kl.clamp] as const) };
  return new Map(
    finished.flatMap((trajectory, i) => {
      const penalties = klPenalties(config, { logProbs: own[i]!, referenceLogProbs: references[i]! });
      return penalties.every(Number.isFinite) ? [[trajectory, penalties] as const] : [];
    }),
  );
}

/** `kl` of metrics.ts: the mean estimate over all tokens, before its coefficient. Nothing without a KL penalty in the reward. */
export function penaltyValues(penalties: ReadonlyMap<Trajectory, Float64Array> | null, { kl }: TrainingConfig['algorithm']): { kl?: number | null } {
  if (penalties === null) return {};
  let [sum, tokens] = [0, 0];
  for (const each of penalties.values()) {
    for (const value of each) sum += value;
    tokens += each.length;
  }
  return { kl: tokens === 0 ? null : sum / kl.coefficient / tokens };
}

/** The trajectories that can be credited: those with a reward, and with a penalty if their tokens have one. */
export function creditable(trajectories: readonly Trajectory[], penalties: ReadonlyMap<Trajectory, Float64Array> | null): readonly Trajectory[] {
  return trajectories.filter((trajectory) => {
    if (trajectory.reward === null) return false;
    return penalties === null || trajectory.targets.length === 0 || penalties.has(trajectory);
  });
}
