/** Tries the losses of modules on made-up rollouts. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { isModulePath } from '../../core/module-path.ts';
import { trainingSequence, type TrainingSequence } from '../credit.ts';
import { logProbsOf, madeUpKinds, madeUpRollouts, onMadeUpRollouts, type TriedRows } from '../credit/made-up-rollouts.ts';
import type { LossTerm } from '../token-loss.ts';
import { evaluateTerms, termCounts } from './evaluate-terms.ts';

/**
 * Throws ConfigError, which names the module and what is wrong.
 * @param terms those of the run, opened once more
 */
export async function tryLosses(terms: readonly LossTerm[], config: TrainingConfig, rows: TriedRows): Promise<void> {
  for (const term of terms) {
    const use = term.isMain ? config.algorithm.loss.use : (config.losses[term.name]?.use ?? '');
    if (isModulePath(use)) await onMadeUpRollouts(() => tryLoss(term, madeUpSequences(term, config, rows)));
  }
}

function tryLoss(term: LossTerm, sequences: readonly TrainingSequence[]): void {
  const tried = { ...term, roles: null };
  const offsets = new Int32Array(sequences.length + 1);
  for (const [i, { targets }] of sequences.entries()) offsets[i + 1] = offsets[i]! + targets.length;
  const columns = sequences.map(({ targets }) => logProbsOf(targets));
  const logProbs = Float64Array.from(columns.flatMap((column) => [...column]));
  evaluateTerms([tried], [termCounts(tried, sequences)], sequences, { offsets, logProbs, entropy: logProbs.map((logProb) => -logProb) });
}

/** Of the term's own roles, with advantages of both signs and 0; for a loss on demonstrations rows without log-probs. */
function madeUpSequences({ on, roles }: LossTerm, config: TrainingConfig, rows: TriedRows): TrainingSequence[] {
  return madeUpRollouts(config, rows)
    .filter(({ error }) => error === null)
    .map((rollout, i) => {
      const trajectory = { ...rollout, ...(roles === null ? {} : { role: roles[i % roles.length]! }) };
      const measured = {
        oldLogProbs: logProbsOf(trajectory.targets),
        referenceLogProbs: logProbsOf(trajectory.targets),
        kinds: madeUpKinds(trajectory),
      };
      if (on === 'demonstrations') return { ...trainingSequence({ ...trajectory, logProbs: null }, 1), ...measured, isDemonstration: true };
      return { ...trainingSequence(trajectory, 1 - (i % 3)), ...measured };
    });
}
