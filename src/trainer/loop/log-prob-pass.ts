/** Log-probs without a gradient, under the policy before an update or the policy at the start of the run. */
import type { TrainingSequence } from '../credit/form-groups.ts';
import type { ForwardOptions, GradientBackend } from '../gradients/gradient-backend.ts';
import { packBatches } from './pack-batches.ts';
import type { TokenBudget } from './token-budget.ts';

export interface PassOptions {
  readonly backend: GradientBackend;
  readonly budget: TokenBudget;
  /** Sampling temperature. */
  readonly temperature: number;
  readonly signal: AbortSignal;
}

/** Log-probs of the targets of each sequence, [M_i]; empty if a sequence has none. */
export async function logProbPass(
  sequences: readonly Pick<TrainingSequence, 'trajectory' | 'targets'>[],
  adapter: ForwardOptions['adapter'],
  { backend, budget, temperature, signal }: PassOptions,
): Promise<Float64Array[]> {
  const logProbs = sequences.map(() => new Float64Array(0));
  let waiting = sequences.flatMap(({ trajectory, targets }, place) => (targets.length > 0 ? [{ place, ids: trajectory.ids, targets }] : []));
  while (waiting.length > 0) {
    const done = new Set<number>();
    for (const micro of packBatches(waiting, budget.tokens, temperature)) {
      const packed = await budget.attempt(micro, () => backend.forward(micro.batch, { retain: false, adapter, signal }));
      if (packed === null) break;
      for (const [i, member] of micro.members.entries()) {
        const { place } = waiting[member]!;
        logProbs[place] = Float64Array.from(packed.logProbs.subarray(micro.targetOffsets[i], micro.targetOffsets[i + 1]));
        done.add(place);
      }
    }
    waiting = waiting.filter(({ place }) => !done.has(place));
  }
  return logProbs;
}
