import type { Environment } from '../../core/environment.ts';

/** Name of the evaluation rows: `held-out` if the run does not train on them. */
export type EvaluationLabel = 'held-out' | 'evaluation';

/** Compares the number of rows and the first row: without a split, both data sets are the same. */
export function evaluationLabel({ train }: Pick<Environment, 'train'>, evaluation: Pick<Environment, 'eval'>): EvaluationLabel {
  const isSame = evaluation.eval.length === train.length && evaluation.eval.at(0).exampleId === train.at(0).exampleId;
  return isSame ? 'evaluation' : 'held-out';
}
