import { TrainingError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { klPenalizedOutcomes } from '../losses/kl.ts';
import { logProbPass, type PassOptions } from '../loop/log-prob-pass.ts';
import type { Trajectory } from '../sources/trajectory.ts';

/** KL in the reward: the penalty that is subtracted from each trajectory's reward, β · Σ k over its sampled tokens. Null if none is configured. */
export async function klPenalties(
  trajectories: readonly Trajectory[],
  { kl, oldLogProbs }: TrainingConfig['algorithm'],
  pass: PassOptions,
): Promise<((trajectory: Trajectory) => number) | null> {
  if (kl.coefficient === 0 || kl.placement !== 'reward') return null;
  const finished = trajectories.filter(({ reward, targets }) => reward !== null && targets.length > 0);
  const own = oldLogProbs === 'sampler' ? finished.map(({ logProbs }) => logProbs) : await logProbPass(asSequences(finished), 'on', pass);
  const references = await logProbPass(asSequences(finished), 'initial', pass);
  const config = { ...kl, clamp: kl.clamp === null ? null : ([-kl.clamp, kl.clamp] as const) };
  const penalties = new Map(
    finished.map((trajectory, i) => {
      const size = trajectory.targets.length;
      const layout = { offsets: Int32Array.of(0, size), mask: new Uint8Array(size).fill(1) };
      const penalty = -klPenalizedOutcomes(config, { ...layout, logProbs: own[i]!, referenceLogProbs: references[i]! }, [0]).rewards[0]!;
      if (!Number.isFinite(penalty))
        throw new TrainingError(`The KL penalty of rollout ${trajectory.rolloutId} is ${penalty}; set algorithm.kl.clamp`);
      return [trajectory, penalty] as const;
    }),
  );
  return (trajectory) => penalties.get(trajectory) ?? 0;
}

function asSequences(trajectories: readonly Trajectory[]): { readonly trajectory: Trajectory; readonly targets: Int32Array }[] {
  return trajectories.map((trajectory) => ({ trajectory, targets: trajectory.targets }));
}
