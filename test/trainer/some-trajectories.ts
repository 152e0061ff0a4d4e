/** Plain trajectories for tests. */
import type { RolloutFiles } from '../../src/trainer/records/rollout-files.ts';
import type { Trajectory } from '../../src/trainer/trajectory.ts';

/** A finished one, with `changes` applied. */
export function trajectory(rolloutId: string, changes: Partial<Trajectory> = {}): Trajectory {
  return {
    rolloutId,
    groupId: rolloutId.split('/')[0]!,
    index: Number(rolloutId.split('/')[1]),
    reward: 0.5,
    metrics: { em: 1 },
    error: null,
    stop: 'completed',
    isTruncated: false,
    isCut: false,
    policy: { model: 'policy-v3', version: 3 },
    role: 'policy',
    task: null,
    turns: 1,
    ids: Int32Array.of(1, 2, 3, 4),
    promptLength: 2,
    targets: Int32Array.of(2, 3),
    logProbs: Float64Array.of(-0.1, -1 / 3),
    segments: [{ kind: 'model', text: 'é\u2028 42' }],
    usage: { inputTokens: 2, outputTokens: 2, cachedTokens: null },
    ...changes,
  };
}

/** The bits of the arrays, so that equal means the same to the bit (0 and -0 differ, for one). */
export function bits({ ids, targets, logProbs, versions }: Trajectory): (string | null)[] {
  return [ids, targets, logProbs, versions].map((array) =>
    array === undefined || array === null ? null : Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('hex'),
  );
}

/** The steps that are complete in a store without phases. */
export async function stepsOf(store: RolloutFiles): Promise<number[]> {
  return (await store.complete()).map(({ step }) => step);
}
