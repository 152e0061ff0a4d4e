import { isDeepStrictEqual } from 'node:util';
import type { Environment } from '../../core/environment.ts';
import { trainingRows } from '../../core/training-rows.ts';

/** Name of the evaluation rows: `held-out` if the run does not train on them. */
export type EvaluationLabel = 'held-out' | 'evaluation';

/** Compares the number of rows and the first prompt: a data set without splits is the same in both. Rows are held out from an environment without training rows. */
export function evaluationLabel(environment: Pick<Environment, 'train'>, evaluation: Pick<Environment, 'eval'>): EvaluationLabel {
  const train = trainingRows(environment);
  if (train === null || train.length !== evaluation.eval.length) return 'held-out';
  const [trained, played] = [train.at(0), evaluation.eval.at(0)];
  // Rows whose prompts are written by their episodes have none to compare. Ids may differ: those of rows without one begin with the split.
  const isSame = trained.prompt.length === 0 ? trained.exampleId === played.exampleId : isDeepStrictEqual(trained.prompt, played.prompt);
  return isSame ? 'evaluation' : 'held-out';
}
