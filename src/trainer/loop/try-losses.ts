/** Tries the losses of modules on made-up rollouts. */
import { ConfigError } from '../../core/errors.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { isModulePath } from '../../core/module-path.ts';
import { trainingSequence, type TrainingSequence } from '../credit.ts';
import { logProbsOf, madeUpKinds, madeUpRollouts, onMadeUpRollouts, type TriedRows } from '../credit/made-up-rollouts.ts';
import type { LossTerm, TokenLossBatch } from '../token-loss.ts';
import { evaluateTerms, termCounts } from './evaluate-terms.ts';

/**
 * Throws ConfigError, which names the module and what is wrong.
 * @param terms those of the run, opened once more
 */
export async function tryLosses(terms: readonly LossTerm[], config: TrainingConfig, rows: TriedRows): Promise<void> {
  for (const term of terms) {
    const use = term.isMain ? config.algorithm.loss.use : (config.losses[term.name]?.use ?? '');
    if (isModulePath(use)) await onMadeUpRollouts(() => tryLoss(term, use, madeUpSequences(term, config, rows)));
  }
}

function tryLoss(term: LossTerm, use: string, sequences: readonly TrainingSequence[]): void {
  const tried = { ...term, roles: null, loss: { ...term.loss, evaluate: unchanging(term, use) } };
  const offsets = new Int32Array(sequences.length + 1);
  for (const [i, { targets }] of sequences.entries()) offsets[i + 1] = offsets[i]! + targets.length;
  const columns = sequences.map(({ targets }) => logProbsOf(targets));
  const logProbs = Float64Array.from(columns.flatMap((column) => [...column]));
  evaluateTerms([tried], [termCounts(tried, sequences)], sequences, { offsets, logProbs, entropy: logProbs.map((logProb) => -logProb) });
}

/** A loss that changed its batch would change what other losses and the records see. */
function unchanging({ loss }: LossTerm, use: string): LossTerm['loss']['evaluate'] {
  return (batch, counts) => {
    const before = numbersOf(batch);
    const value = loss.evaluate(batch, counts);
    const after = numbersOf(batch);
    const changed = Object.keys(before).find((name) => before[name] !== after[name]);
    if (changed === undefined) return value;
    throw new ConfigError(
      `evaluate of the loss ${use} changed ${changed} of its batch; make a copy, such as Float64Array.from(${changed}), and change that`,
    );
  };
}

function numbersOf(batch: TokenLossBatch): Record<string, string> {
  return Object.fromEntries(Object.entries(batch).map(([name, values]) => [name, JSON.stringify(Array.from<unknown>(values))]));
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
